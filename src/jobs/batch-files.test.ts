import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { BatchFiles } from './batch-files.ts'

const mostFiles = 3

test('files have an end in number and age, and belong to who uploaded them', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-batch-files-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const clock = new ManualClock()
  const files = new BatchFiles(clock, folder, mostFiles)
  const first = await files.add('a/me', 'x.jsonl', 'batch', Buffer.from('1'))
  for (let i = 1; i < mostFiles; i++) await files.add('a/me', 'x.jsonl', 'batch', Buffer.from('1'))
  await assert.rejects(files.add('a/me', 'x', 'batch', Buffer.from('1')), /keeps at most 3 files of \d+ bytes together/)
  assert.throws(() => files.file(first.id, 'b/you'), /there is no file/)
  assert.deepEqual(files.files('b/you'), [])
  const restored = new BatchFiles(clock, folder)
  await restored.restore()
  assert.equal(restored.files('a/me').length, mostFiles)
  clock.advanceNs(31 * 24 * 3600 * 1e9)
  await files.add('a/me', 'x.jsonl', 'batch', Buffer.from('1'))
  assert.equal(files.files('a/me').length, 1)
})

test('batches have an end in number: the oldest that is over goes', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-batch-files-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const clock = new ManualClock()
  const files = new BatchFiles(clock, folder, mostFiles, 2)
  const add = async (id: string, over: readonly string[]): Promise<void> => {
    await files.makeRoomForBatch((one) => over.includes(one))
    await files.addBatch({ id, owner: 'a/me', inputFile: '', endpoint: '', window: '', metadata: null, total: 1, createdMs: clock.wallMs() }) // prettier-ignore
  }
  await add('batch_1', [])
  await add('batch_2', [])
  await assert.rejects(add('batch_3', []), /2 batches are under way, which is the most/)
  await add('batch_3', ['batch_2'])
  const restored = new BatchFiles(clock, folder)
  await restored.restore()
  assert.deepEqual(restored.batches('a/me').map(({ id }) => id), ['batch_3', 'batch_1']) // prettier-ignore
})
