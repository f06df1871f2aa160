import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cudaCodeIn, GpuFaults } from './gpu-faults.ts'

test('a GPU is lost with the first error that lasts, and others stay', () => {
  const faults = new GpuFaults()
  const told: string[] = []
  faults.listen((deviceId, text) => told.push(`${deviceId} ${text}`))
  faults.note(0, { code: 2, text: 'out of memory' })
  assert.equal(faults.of(0), null)
  faults.note(0, { code: 700, text: 'an illegal memory access' })
  faults.note(0, { code: 719, text: 'launch failure' })
  assert.equal(faults.of(0), 'an illegal memory access')
  assert.equal(faults.of(1), null)
  assert.deepEqual(told, ['0 an illegal memory access'])
})

test('what the driver says of a code decides: those after which the process must be started again are lasting', () => {
  const lost = (code: number): boolean => {
    const faults = new GpuFaults()
    faults.note(0, { code, text: 'x' })
    return faults.of(0) !== null
  }
  const lasting = [214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911]
  // Memory, a wrong value, an image for another GPU, too large a launch, MPS without room for one more.
  const passing = [-1, 1, 2, 101, 209, 600, 701, 720, 801, 808, 809, 900]
  assert.deepEqual([...lasting, ...passing].filter(lost), lasting)
})

test('the number of an error of CUDA is read out of what ONNX Runtime says', () => {
  assert.equal(cudaCodeIn('CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=a'), 700)
  assert.equal(cudaCodeIn('Non-zero status code returned while running Conv node'), null)
})
