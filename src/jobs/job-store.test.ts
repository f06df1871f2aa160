import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import { JobStore } from './job-store.ts'

test('the answers of all jobs together are bounded, and those of one job', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-job-store-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const store = new JobStore(new MemoryLog(), folder)
  const gibibyte = 1024 ** 3
  assert.equal(await store.roomForAnswers('a'), gibibyte, 'the folder is not there yet')
  await mkdir(path.join(folder, 'jobs'))
  const keep = async (file: string, bytes: number): Promise<void> => {
    await writeFile(file, '')
    // The file has a hole and takes no room on the disk.
    await truncate(file, bytes)
  }
  await keep(store.outputFile('old'), 15.75 * gibibyte)
  await keep(store.inputFile('old'), gibibyte)
  assert.equal(await store.roomForAnswers('new'), gibibyte / 4)
  assert.equal(await store.roomForAnswers('old'), gibibyte, 'its own answers do not count against a job')
  await keep(store.outputFile('other'), gibibyte / 4)
  await assert.rejects(store.roomForAnswers('new'), {
    code: 'UNAVAILABLE',
    message: /the answers of other jobs have 17179869184 bytes, and the server keeps at most 17179869184: delete jobs/,
  })
})
