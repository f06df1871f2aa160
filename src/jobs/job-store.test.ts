import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises'
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

test('what a server that was killed left behind goes at the next start, and what belongs to a job stays', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-job-store-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const jobs = path.join(folder, 'jobs')
  await mkdir(path.join(jobs, 'lost.upload'), { recursive: true })
  const kept = ['broken.json', 'broken.output.jsonl', 'j.input.jsonl', 'j.json', 'notes.txt']
  const lost = ['lost.input.jsonl', 'lost.output.jsonl', '.4711-0123456789abcdef.new']
  for (const name of [...kept, ...lost]) await writeFile(path.join(jobs, name), '{"id":"j","plan":{}}')
  const store = new JobStore(new MemoryLog(), folder)
  assert.deepEqual((await store.read()).map(({ id }) => id), ['j']) // prettier-ignore
  assert.deepEqual((await readdir(jobs)).sort(), kept)
})

test('two servers do not run the jobs of one folder, and one that was killed holds nobody up', async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-job-store-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const first = new JobStore(new MemoryLog(), folder)
  await first.saveLines('j', ['{}'])
  await first.close()
  await writeFile(path.join(folder, 'server.pid'), '1')
  const other = new JobStore(new MemoryLog(), folder)
  await assert.rejects(other.read(), { code: 'UNAVAILABLE', message: /belongs to the server with the process id 1.*--state-dir/ }) // prettier-ignore
  await assert.rejects(other.saveLines('k', ['{}']), { code: 'UNAVAILABLE' })
  await writeFile(path.join(folder, 'server.pid'), String(2 ** 22 + 1))
  assert.deepEqual(await other.read(), [])
  await other.close()
  assert.ok(!(await readdir(folder)).includes('server.pid'))
})
