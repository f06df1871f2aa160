import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { MeasuredPoint } from './find-setting.ts'
import { filesMark, TuneState } from './tune-state.ts'

const setting = { maxBatchSize: 8, delayUs: 0, instances: 1 }
const point: MeasuredPoint = {
  step: 'batching',
  setting,
  concurrency: 4,
  inferPerSecond: 100,
  latencyMs: 5,
  averageBatch: 3,
  memoryMib: null,
  failure: '',
}

let folder: string
before(async () => (folder = await mkdtemp(path.join(tmpdir(), 'galatea-tune-state-'))))
after(() => rm(folder, { recursive: true, force: true }))

test('what was measured is found again by a run about the same, and by no other', async () => {
  const file = path.join(folder, 'same.json')
  const state = TuneState.create(file, 'this')
  state.add(point)
  const resumed = TuneState.resume(file, 'this')
  assert.deepEqual(resumed.find({ step: 'delay', setting, concurrency: 4 }), point)
  assert.equal(resumed.find({ step: 'confirm', setting, concurrency: 4 }), null)
  assert.throws(() => TuneState.resume(file, 'that'), /another model, configuration, server or data; start anew/)
  assert.deepEqual(await readdir(folder), ['same.json'])
  resumed.remove()
  assert.throws(() => TuneState.resume(file, 'this'), /there is no .*same\.json to go on with/)
})

test('what failed is tried again: the reason may be gone', () => {
  const file = path.join(folder, 'failed.json')
  const state = TuneState.create(file, 'this')
  state.add({ ...point, failure: 'the server was gone' })
  assert.equal(TuneState.resume(file, 'this').points.length, 0)
})

test('the file of a run that is under way is left alone, that of one that ended is not', async () => {
  const file = path.join(folder, 'busy.json')
  const other = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'ignore'] })
  await once(other, 'spawn')
  await writeFile(file, JSON.stringify({ about: 'this', pid: other.pid, points: [] }))
  assert.throws(() => TuneState.create(file, 'this'), /belongs to another galatea tune that is running/)
  assert.throws(() => TuneState.resume(file, 'this'), /belongs to another galatea tune that is running/)
  other.stdin?.end()
  await once(other, 'exit')
  assert.equal(TuneState.resume(file, 'this').points.length, 0)
})

test('a file that cannot be read or written is named with what to do', async () => {
  const file = path.join(folder, 'broken.json')
  for (const text of ['{', 'null']) {
    await writeFile(file, text)
    assert.throws(() => TuneState.resume(file, 'this'), /cannot read .*broken\.json.*start anew/)
  }
  assert.equal(TuneState.create(file, 'this').points.length, 0)
  assert.throws(() => TuneState.create(path.join(folder, 'nowhere/x.json'), 'this'), /--state FILE names another place/)
})

test('a model whose files changed is another; what loading leaves behind and its config.pbtxt do not count', async () => {
  const model = path.join(folder, 'model')
  assert.equal(filesMark(model), '')
  await mkdir(path.join(model, '1/__pycache__'), { recursive: true })
  await writeFile(path.join(model, '1/model.py'), 'one')
  const mark = filesMark(model)
  await writeFile(path.join(model, '1/__pycache__/model.pyc'), 'compiled')
  await writeFile(path.join(model, 'config.pbtxt'), '# a comment')
  assert.equal(filesMark(model), mark)
  await writeFile(path.join(model, '1/model.py'), 'two')
  await utimes(path.join(model, '1/model.py'), 1, 1)
  assert.notEqual(filesMark(model), mark)
})
