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
const quick = ['--window-ms', '60', '--max-concurrency', '16', '--max-batch-size', '8', '--max-instances', '2']

type Ended = { readonly code: number | null; readonly stdout: string; readonly stderr: string }

/** `onOutput`: whether it has seen enough, and interrupts. */
async function tune(args: readonly string[], onOutput: (stdout: string) => boolean = () => false): Promise<Ended> {
  const command = [path.join(projectRoot, 'bin/galatea.js'), 'tune', '-m', 'steady', ...args]
  const child = spawn(process.execPath, command, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let [stdout, stderr, isInterrupted] = ['', '', false]
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
    if (isInterrupted || !onOutput(stdout)) return
    isInterrupted = true
    child.kill('SIGINT')
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
  const args = [...quick, '--model-repository', path.join(root, 'models')]
  const cut = await tune(args, (stdout) => stdout.includes(' 2 at once'))
  assert.equal(cut.code, 1, cut.stdout + cut.stderr)
  assert.match(cut.stdout, /Go on with: galatea tune .* --resume/)
  const resumed = await tune([...args, '--resume'])
  assert.equal(resumed.code, 0, resumed.stdout + resumed.stderr)
  assert.match(resumed.stdout, /^- \d+ points were measured before$/m)
  assert.match(resumed.stdout, /To have it written: add --apply/)
  assert.equal(await readFile(configFile(), 'utf8'), config)
})

test('a server that does not load models on request is refused with what to do', async () => {
  await writeFile(configFile(), config)
  await using server = await startServerProcess([`--model-repository=${path.join(root, 'models')}`])
  const { code, stderr } = await tune([...quick, '-u', server.address])
  assert.equal(code, 1)
  assert.match(stderr, /does not load models on request.*--model-control-mode=explicit/s)
})
