import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { BatchFiles } from './batch-files.ts'
import { oldestToForget } from './oldest-to-forget.ts'

const mostFiles = 3

test('files have an end in number and age, and belong to who uploaded them', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-batch-files-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const clock = new ManualClock()
  const files = new BatchFiles(clock, folder, mostFiles)
  const first = await files.add('a/me', 'x.jsonl', 'batch', Buffer.from('1'))
  await files.add('a/me', 'x.jsonl', 'batch', Buffer.from('1'))
  await assert.rejects(files.add('a/me', 'x', 'batch', Buffer.from('1')), /you keep 2 files, which is half/)
  await files.add('a/other', 'x.jsonl', 'batch', Buffer.from('1'))
  await assert.rejects(files.add('a/me', 'x', 'batch', Buffer.from('1')), /keeps at most 3 files of \d+ bytes together/)
  assert.throws(() => files.file(first.id, 'b/you'), /there is no file/)
  assert.deepEqual(files.files('b/you'), [])
  const restored = new BatchFiles(clock, folder)
  await restored.restore()
  assert.equal(restored.files('a/me').length, 2)
  // What a crash left behind goes, and a file that is damaged keeps nobody from starting.
  await writeFile(path.join(folder, 'batches', 'file-lost.jsonl'), 'x')
  await writeFile(path.join(folder, 'batches', 'batch_broken.json'), '{"id":')
  const again = new BatchFiles(clock, folder)
  await again.restore()
  assert.equal((await readdir(path.join(folder, 'batches'))).includes('file-lost.jsonl'), false)
  clock.advanceNs(31 * 24 * 3600 * 1e9)
  await files.add('a/me', 'x.jsonl', 'batch', Buffer.from('1'))
  assert.equal(files.files('a/me').length, 1)
})

test('what makes room is of the owner that keeps the most, the oldest first', () => {
  const all = ['you', 'me', 'me', 'me'].map((owner, at) => ({ owner, at }))
  const forget = (over: readonly number[]) => oldestToForget(all, ({ owner }) => owner, ({ at }) => over.includes(at))?.at // prettier-ignore
  assert.deepEqual([forget([0, 2, 3]), forget([0]), forget([])], [2, 0, undefined])
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
