// Jobs over files, lines of the body and real queues: nothing is lost when the server is killed, and clients come first.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { createClient } from '@redis/client'
import { until } from '../until.ts'
import { Ends, startRedis } from './queue-brokers.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

type Job = { id: string; state: string; done: number; failed: number; reason?: string; left?: number | null }

const lineOf = (i: number): string =>
  JSON.stringify({
    id: `r${i}`,
    inputs: ['INPUT0', 'INPUT1'].map((name) => ({
      name,
      datatype: 'INT32',
      shape: [1, 16],
      data: Array.from({ length: 16 }, () => i),
    })),
  })

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-jobs-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  for (const name of ['in', 'state']) await mkdir(path.join(folder, name))
  return folder
}

const bare = ['--model-repository', exampleModels, '--allow-grpc=false', '--allow-metrics=false']

const flagsOf = (folder: string, ...more: string[]): string[] => {
  const files = ['--state-dir', path.join(folder, 'state'), '--jobs-dir', folder]
  return [...bare, '--allow-jobs=true', ...files, ...more]
}

async function ask(url: string, body?: unknown): Promise<{ status: number; json: Job & { error?: string } }> {
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  const answer = await fetch(url, init)
  return { status: answer.status, json: (await answer.json()) as Job & { error?: string } }
}

async function posted({ url }: ServerProcess, body: unknown): Promise<Job> {
  const { status, json } = await ask(`${url}/v2/jobs`, body)
  assert.equal(status, 201, JSON.stringify(json))
  return json
}

async function ended({ url }: ServerProcess, { id }: Job): Promise<Job> {
  let job: Job | null = null
  const isOver = async (): Promise<boolean> => {
    job = (await ask(`${url}/v2/jobs/${id}`)).json
    return ['DONE', 'FAILED', 'CANCELLED'].includes(job.state)
  }
  await until(isOver, 'the job to end', { seen: () => JSON.stringify(job) })
  return job as unknown as Job
}

const idsIn = async (file: string): Promise<string[]> =>
  (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '').map((line) => (JSON.parse(line) as { id: string }).id) // prettier-ignore

test('a job over files that is killed in the middle goes on and answers each line once, in order', async (t) => {
  const folder = await folderOf(t)
  const count = 4000
  const half = Array.from({ length: count / 2 }, (_, i) => lineOf(i)).join('\n')
  await writeFile(path.join(folder, 'in', 'a.jsonl'), `${half}\n`)
  await writeFile(path.join(folder, 'in', 'b.jsonl'), Array.from({ length: count / 2 }, (_, i) => lineOf(i + count / 2)).join('\n')) // prettier-ignore
  const killed = await startServerProcess(flagsOf(folder))
  t.after(() => killed.stop())
  const job = await posted(killed, { model: 'simple', input: { files: 'in/*.jsonl' }, output: { file: 'out/all.jsonl' } }) // prettier-ignore
  await until(async () => (await ask(`${killed.url}/v2/jobs/${job.id}`)).json.done > 1500, 'some lines')
  killed.signal('SIGKILL')
  await killed.exited
  const server = await startServerProcess(flagsOf(folder))
  t.after(() => server.stop())
  assert.equal((await ended(server, job)).state, 'DONE')
  const ids = await idsIn(path.join(folder, 'out', 'all.jsonl'))
  assert.deepEqual(
    ids,
    Array.from({ length: count }, (_, i) => `r${i}`),
  )
  const [first] = (await readFile(path.join(folder, 'out', 'all.jsonl'), 'utf8')).split('\n', 1)
  assert.deepEqual(
    (JSON.parse(first ?? '') as { outputs: { data: number[] }[] }).outputs[1]?.data,
    Array.from({ length: 16 }, () => 0),
  )
})

test('lines of the body, bad lines, pause, resume, cancel, and paths that lead out of the folder', async (t) => {
  const folder = await folderOf(t)
  await writeFile(path.join(folder, 'in', 'a.jsonl'), Array.from({ length: 3000 }, (_, i) => lineOf(i)).join('\n'))
  await symlink('/etc', path.join(folder, 'in', 'link'))
  const server = await startServerProcess(flagsOf(folder))
  t.after(() => server.stop())
  const lines = [JSON.parse(lineOf(1)), { id: 'bad', inputs: [] }, 'no json']
  const inline = await ended(server, await posted(server, { model: 'simple', input: { lines } }))
  assert.deepEqual([inline.state, inline.done, inline.failed], ['DONE', 1, 2])
  const output = await fetch(`${server.url}/v2/jobs/${inline.id}/output`)
  const kept = await output.text()
  const answers = kept.trim().split('\n').map((line) => JSON.parse(line) as { id: string; error?: string }) // prettier-ignore
  assert.deepEqual(answers.map(({ id }) => id), ['r1', 'bad', 'line:3']) // prettier-ignore
  assert.match(answers[1]?.error ?? '', /expected 2 inputs/)
  assert.match(answers[2]?.error ?? '', /not JSON/)

  const slow = { model: 'simple', input: { files: 'in/a.jsonl' }, concurrency: 1 }
  const job = await posted(server, slow)
  const paused = await ask(`${server.url}/v2/jobs/${job.id}/pause`, {})
  assert.deepEqual([paused.status, paused.json.state], [200, 'PAUSED'])
  const { done } = (await ask(`${server.url}/v2/jobs/${job.id}`)).json
  assert.ok(done < 3000)
  assert.equal((await ask(`${server.url}/v2/jobs/${job.id}/resume`, {})).json.state, 'RUNNING')
  assert.deepEqual([(await ended(server, job)).done, (await ask(`${server.url}/v2/jobs/${job.id}/resume`, {})).status], [3000, 409]) // prettier-ignore
  const other = await posted(server, slow)
  assert.equal((await ask(`${server.url}/v2/jobs/${other.id}/cancel`, {})).json.state, 'CANCELLED')

  const refusals: [body: unknown, status: number, text: RegExp][] = [
    [{ ...slow, input: { files: '../state/jobs/x.json' } }, 400, /leads out of/],
    [{ ...slow, input: { files: 'in/link/passwd' } }, 400, /leads out of/],
    [{ ...slow, input: { files: '/etc/passwd' } }, 400, /leads out of/],
    [{ ...slow, output: { file: 'in/link/out.jsonl' } }, 400, /leads out of/],
    [{ ...slow, input: { files: 'in' } }, 400, /'in' is no file/],
    [{ ...slow, output: { file: 'in' } }, 400, /'in' is no file/],
    [{ ...slow, input: { files: 'in/none.jsonl' } }, 404, /there is no file 'in\/none.jsonl'/],
    [{ ...slow, model: 'none' }, 404, /unknown model/],
    [{ ...slow, input: { redis: { stream: 's' } } }, 501, /start it with --jobs-redis/],
    [{ ...slow, output: { kafka: { topic: 's' } } }, 501, /start it with --jobs-kafka/],
    [{ ...slow, concurrency: 'x' }, 400, /'concurrency' must be a whole number/],
    [{ ...slow, input: { lines: ['x'.repeat(4 * 1024 * 1024)] } }, 400, /at most 4194304 are taken: put the lines/],
    [
      { ...slow, input: { lines: Array.from({ length: 500_000 }, () => []) } },
      400,
      /more than 500000 lists and objects/,
    ],
  ]
  for (const [body, status, text] of refusals) {
    const refused = await ask(`${server.url}/v2/jobs`, body)
    assert.match(refused.json.error ?? '', text)
    assert.equal(refused.status, status, JSON.stringify(refused.json))
  }
  const none = await startServerProcess(bare) // prettier-ignore
  t.after(() => none.stop())
  const off = await ask(`${none.url}/v2/jobs`, slow)
  assert.deepEqual([off.status, /--allow-jobs=true/.test(off.json.error ?? '')], [501, true])
})

/** `GALATEA_JOB_MESSAGES=100000` for a long proof. */
const messageCount = Number(process.env['GALATEA_JOB_MESSAGES'] ?? 2000)
const patience = { seconds: 60 + messageCount / 100, everyMs: 100 }

test('messages of a Redis stream: a server that is killed loses none, and bad ones are put aside', async (t) => {
  const folder = await folderOf(t)
  const ends = new Ends()
  t.after(() => ends.close())
  const address = await startRedis(ends, folder)
  const client = createClient({ url: address })
  client.on('error', () => undefined)
  await client.connect()
  t.after(() => client.destroy())
  const count = messageCount
  for (let i = 0; i < count; i += 500) {
    await Promise.all(Array.from({ length: 500 }, (_, k) => client.xAdd('in', '*', { body: lineOf(i + k) })))
  }
  await client.xAdd('in', '*', { body: '{"id":"bad"}' })
  const plan = { model: 'simple', input: { redis: { stream: 'in' } }, output: { redis: { stream: 'out' } } }
  const flags = flagsOf(folder, '--jobs-redis', address, `--job=${JSON.stringify(plan)}`)
  const killed = await startServerProcess(flags)
  t.after(() => killed.stop())
  await until(async () => (await client.xLen('out')) > count / 3, 'some answers', patience)
  killed.signal('SIGKILL')
  await killed.exited
  const server = await startServerProcess(flags)
  t.after(() => server.stop())
  const jobs = (await (await fetch(`${server.url}/v2/jobs`)).json()) as Job[]
  const [job] = jobs
  assert.ok(job !== undefined && jobs.length === 1, 'the job of the command line is one job')
  const left = async (): Promise<number | null | undefined> => (await ask(`${server.url}/v2/jobs/${job.id}`)).json.left
  await until(async () => (await left()) === 0, 'the stream to be empty', patience)
  const answers = ((await client.xRange('out', '-', '+')) ?? []).map(({ message }) => JSON.parse(message['body'] ?? '') as { id: string }) // prettier-ignore
  const ids = new Set(answers.map(({ id }) => id))
  assert.equal(ids.size, count + 1)
  t.diagnostic(`${count} messages, ${answers.length - ids.size} answers came twice`)
  // As many as are between their reading and their mark.
  assert.ok(answers.length - ids.size <= 256, `${answers.length - ids.size} answers came twice`)
  const dead = (await client.xRange('in:dead', '-', '+')) ?? []
  assert.deepEqual(dead.map(({ message }) => message['body']), ['{"id":"bad"}']) // prettier-ignore
  assert.equal((await ask(`${server.url}/v2/jobs/${job.id}/cancel`, {})).json.state, 'CANCELLED')
})
