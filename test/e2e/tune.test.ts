// `galatea tune` on a model that gains from batches: an execution takes 3 ms, however many rows it has.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { projectRoot, startServerProcess } from './server-process.ts'

const config = `backend: "identity"
max_batch_size: 8  # a guess
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "execute_delay_ms" value { string_value: "3" } }
`

let root: string
before(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'galatea-tune-'))
  await mkdir(path.join(root, 'models/steady/1'), { recursive: true })
})
after(() => rm(root, { recursive: true, force: true }))

const configFile = (): string => path.join(root, 'models/steady/config.pbtxt')
const quick = ['--window-ms', '40', '--max-concurrency', '16', '--max-batch-size', '8', '--max-instances', '2']

type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** `onOutput`: whether it has seen enough, and interrupts. */
async function tune(args: readonly string[], onOutput: (stdout: string) => boolean = () => false): Promise<Ended> {
  const command = [path.join(projectRoot, 'bin/galatea.js'), 'tune', '-m', 'steady', ...args]
  // A group of its own, as a shell gives it one.
  const child = spawn(process.execPath, command, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let [stdout, stderr, isInterrupted] = ['', '', false]
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
    if (isInterrupted || !onOutput(stdout)) return
    isInterrupted = true
    // As a terminal does it: the whole group gets it.
    process.kill(-(child.pid as number), 'SIGINT')
  })
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

test('a running server is tuned, the file keeps its comments, and the model is loaded with the new settings', async () => {
  await writeFile(configFile(), config)
  const models = path.join(root, 'models')
  await using server = await startServerProcess([
    `--model-repository=${models}`,
    '--model-control-mode=explicit',
    '--load-model=steady',
  ])
  const report = path.join(root, 'report.html')
  const { code, stdout, stderr } = await tune([
    ...quick,
    '-u',
    server.address,
    '--model-repository',
    models,
    '--apply',
    '--report',
    report,
  ])
  assert.equal(code, 0, stdout + stderr)
  assert.match(stdout, /baseline|as it is/)
  assert.match(stdout, /^Best: batches of up to \d+, delay \d+ us, \d instances?$/m)
  assert.match(stdout, /^\+dynamic_batching \{/m)
  const text = await readFile(configFile(), 'utf8')
  assert.match(text, /^max_batch_size: \d+ {2}# a guess$/m)
  const answer = await fetch(`${server.url}/v2/models/steady/config`)
  const loaded = (await answer.json()) as Record<string, unknown>
  assert.equal(
    `max_batch_size: ${loaded['max_batch_size'] as number}  # a guess`,
    /^max_batch_size.*$/m.exec(text)?.[0],
  )
  assert.ok(loaded['dynamic_batching'])
  assert.match(await readFile(report, 'utf8'), /<svg[^]*the knee[^]*<\/svg>/)
  assert.equal(existsSync(path.join(root, 'galatea-tune-steady.json')), false)
})

test('an interrupted run goes on where it stopped, on a server that it starts itself, and writes nothing unless told to', async () => {
  await writeFile(configFile(), config)
  const args = [
    ...quick,
    '--model-repository',
    path.join(root, 'models'),
    '--percentile',
    '99.9',
    '--',
    '--log-verbose=0',
  ]
  const cut = await tune(args, (stdout) => stdout.includes(' 2 at once'))
  assert.equal(cut.code, 1, cut.stdout + cut.stderr)
  assert.match(cut.stdout, /Go on with: galatea tune --resume -m steady .* -- --log-verbose=0$/m)
  assert.doesNotMatch(cut.stderr, /no longer answers/)
  const resumed = await tune(['--resume', ...args])
  assert.equal(resumed.code, 0, resumed.stdout + resumed.stderr)
  assert.match(resumed.stdout, /^- \d+ points were measured before$/m)
  assert.match(resumed.stdout, /^step .* p99\.9 ms /m)
  assert.match(resumed.stdout, /To have it written: add --apply/)
  assert.equal(await readFile(configFile(), 'utf8'), config)
})

const explicit = (models: string): string[] => [
  `--model-repository=${models}`,
  '--model-control-mode=explicit',
  '--load-model=steady',
]

async function servedConfig(url: string): Promise<unknown> {
  const answer = await fetch(`${url}/v2/models/steady/config`)
  return answer.json()
}

test('a model that was being tuned is as before after an interruption', async () => {
  await writeFile(configFile(), config)
  await using server = await startServerProcess(explicit(path.join(root, 'models')))
  const before = await servedConfig(server.url)
  const cut = await tune([...quick, '-u', server.address], (stdout) => stdout.includes('] batching'))
  assert.equal(cut.code, 1, cut.stdout + cut.stderr)
  assert.deepEqual(await servedConfig(server.url), before)
  await rm(path.join(root, 'galatea-tune-steady.json'))
})

test('a server that dies ends the run with what to do, nothing is written, and what was measured is kept', async () => {
  await writeFile(configFile(), config)
  const models = path.join(root, 'models')
  await using server = await startServerProcess(explicit(models))
  const args = [...quick, '-u', server.address, '--model-repository', models, '--apply']
  const { code, stdout, stderr } = await tune(args, (text) => {
    if (text.includes('] batching')) server.signal('SIGKILL')
    return false
  })
  assert.equal(code, 1, stdout + stderr)
  assert.match(stderr, /the server at .* no longer answers/)
  assert.match(stdout, /Go on with: galatea tune --resume/)
  assert.doesNotMatch(stdout, /^Best:/m)
  assert.equal(await readFile(configFile(), 'utf8'), config)
  const state = JSON.parse(await readFile(path.join(root, 'galatea-tune-steady.json'), 'utf8')) as {
    points: { failure: string }[]
  }
  assert.ok(state.points.length > 0 && state.points.every((point) => point.failure === ''))
  await rm(path.join(root, 'galatea-tune-steady.json'))
})

test('a change that the server does not take over is taken back: it serves another repository', async () => {
  await writeFile(configFile(), config)
  const elsewhere = path.join(root, 'elsewhere')
  await mkdir(path.join(elsewhere, 'steady'), { recursive: true })
  await writeFile(path.join(elsewhere, 'steady/config.pbtxt'), config)
  await using server = await startServerProcess(explicit(path.join(root, 'models')))
  const before = await servedConfig(server.url)
  const args = [
    ...quick,
    '--max-concurrency',
    '8',
    '--max-instances',
    '1',
    '-u',
    server.address,
    '--model-repository',
    elsewhere,
    '--apply',
  ]
  const { code, stdout, stderr } = await tune(args)
  assert.equal(code, 1, stdout + stderr)
  assert.match(stderr, /is .*elsewhere the repository that it serves\? The file is as it was before/)
  assert.equal(await readFile(path.join(elsewhere, 'steady/config.pbtxt'), 'utf8'), config)
  assert.deepEqual(await servedConfig(server.url), before)
  await rm(path.join(root, 'galatea-tune-steady.json'))
})

test('somebody else who loads the model meanwhile is noticed: the figures would be of another setting', async () => {
  await writeFile(configFile(), config)
  await using server = await startServerProcess(explicit(path.join(root, 'models')))
  const loads: Promise<unknown>[] = []
  const override = { ...((await servedConfig(server.url)) as object), max_batch_size: 32 }
  const { code, stderr } = await tune([...quick, '-u', server.address], (text) => {
    if (text.includes('] as it is') && loads.length === 0) {
      const body = JSON.stringify({ parameters: { config: JSON.stringify(override) } })
      loads.push(fetch(`${server.url}/v2/repository/models/steady/load`, { method: 'POST', body }))
    }
    return false
  })
  await Promise.all(loads)
  assert.equal(code, 1)
  assert.match(stderr, /somebody else loaded 'steady' meanwhile/)
  await rm(path.join(root, 'galatea-tune-steady.json'), { force: true })
})

test('a server that does not load models on request is refused with what to do', async () => {
  await writeFile(configFile(), config)
  await using server = await startServerProcess([`--model-repository=${path.join(root, 'models')}`])
  const { code, stderr } = await tune([...quick, '-u', server.address])
  assert.equal(code, 1)
  assert.match(stderr, /does not load models on request.*--model-control-mode=explicit/s)
})
