import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isVisible, visibleEntries, visibleGpus } from './visible-gpus.ts'

const listed = [
  { index: 0, uuid: 'GPU-aa-1' },
  { index: 1, uuid: 'GPU-bb-2' },
  { index: 2, uuid: 'GPU-cc-3' },
]
const indexes = (list: string | undefined) => visibleGpus(listed, list).map((gpu) => gpu?.index ?? null)

test('CUDA_VISIBLE_DEVICES ends at the first entry that is no device', () => {
  assert.equal(visibleEntries('0,1').length, 2)
  assert.equal(visibleEntries('GPU-1, MIG-7').length, 2)
  assert.equal(visibleEntries('1,-1,0').length, 1)
  assert.equal(visibleEntries('').length, 0)
  assert.equal(visibleEntries('NoDevFiles').length, 0)
})

test('GPUs are numbered as CUDA numbers them: by the list, up to a GPU that is not there', () => {
  assert.deepEqual(indexes(undefined), [0, 1, 2])
  assert.deepEqual(indexes('2,0'), [2, 0])
  assert.deepEqual(indexes('GPU-bb,GPU-aa-1'), [1, 0])
  assert.deepEqual(indexes('1,7,0'), [1])
  assert.deepEqual(indexes('MIG-1/2/3,0'), [null, 0])
  assert.deepEqual(indexes(''), [])
})

test('a GPU is used where the list names it', () => {
  const gpu = { index: 1, uuid: 'GPU-bb-2' }
  for (const list of [undefined, '0,1', 'GPU-bb', 'MIG-7']) assert.ok(isVisible(gpu, list), String(list))
  for (const list of ['', '0', '2,-1,1', 'GPU-aa']) assert.ok(!isVisible(gpu, list), list)
})
