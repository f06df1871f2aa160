// health, fetch and doctor: what they print, and the status that scripts see.

import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { createServer as createSocketServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import { runDoctor } from './doctor.ts'
import { runFetch } from './fetch.ts'
import { runHealth } from './health.ts'

type Said = { readonly status: number; readonly stdout: string; readonly stderr: string }

async function said(
  command: (args: string[], io: { stdout(text: string): void; stderr(text: string): void }) => Promise<number>,
  ...args: string[]
): Promise<Said> {
  let [stdout, stderr] = ['', '']
  const status = await command(args, { stdout: (text) => (stdout += text), stderr: (text) => (stderr += text) })
  return { status, stdout, stderr }
}

let folder: string
let server: Server
let url: string
/** By path. */
const answers = new Map<string, [status: number, body: string]>()

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'galatea-operator-'))
  server = createServer((request, response) => {
    const [status, body] = answers.get(request.url ?? '') ?? [404, '']
    response.writeHead(status).end(body)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

after(async () => {
  server.close()
  await rm(folder, { recursive: true })
})

test('health ends with 0 for a server that is ready, and says why another is not', async () => {
  answers.set('/v2/health/ready', [503, '{"error":"it loads m"}']).set('/v2/health/live', [200, ''])
  const unready = await said(runHealth, '--url', url)
  assert.equal(unready.status, 1)
  assert.match(unready.stderr, /not ready: .* answered 503 .*it loads m/)
  assert.deepEqual(await said(runHealth, '--live', `--url=${url}`), { status: 0, stdout: 'live\n', stderr: '' })
  const closed = createSocketServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => closed.once('listening', resolve))
  const { port } = closed.address() as AddressInfo
  await new Promise((resolve) => closed.close(resolve))
  const away = await said(runHealth, `--url=http://127.0.0.1:${port}`)
  assert.equal(away.status, 1)
  assert.match(
    away.stderr,
    /did not answer .*ECONNREFUSED.*no server listens there: start one with .* or name its address with --url/,
  )
  for (const args of [['--timeout=x'], ['--url', 'ftp://x'], ['--what']]) {
    assert.equal((await said(runHealth, ...args)).status, 2, args.join(' '))
  }
})

test('fetch copies models, replaces those that are there and leaves the others', async () => {
  const from = await temporaryRepository({ 'a/config.pbtxt': 'backend: "x"', 'a/1/model.onnx': 'one', 'b/1/model.onnx': 'two' }) // prettier-ignore
  const to = path.join(folder, 'models')
  const only = await said(runFetch, from.root, to, '--model', 'a')
  assert.deepEqual([only.status, only.stderr], [0, ''])
  assert.equal(await readFile(path.join(to, 'a/1/model.onnx'), 'utf8'), 'one')
  await writeFile(path.join(to, 'a/1/old'), '')
  const all = await said(runFetch, from.root, to)
  assert.match(all.stdout, /fetched 'a' to .*\nfetched 'b' to /)
  await assert.rejects(readFile(path.join(to, 'a/1/old')), /ENOENT/)
  const missing = await said(runFetch, from.root, to, '--model=c')
  assert.equal(missing.status, 1)
  assert.match(missing.stderr, /has no model 'c'; it has a, b/)
  assert.equal((await said(runFetch, from.root)).status, 2)
  assert.equal((await said(runFetch, '/no/such/folder', to)).status, 1)
  await from.remove()
})

type Found = { readonly about: string; readonly state: string; readonly found: string; readonly advice: string }

async function examine(...flags: string[]): Promise<{ status: number; by: (about: string) => Found }> {
  const { status, stdout } = await said(runDoctor, '--json', '--http-port=0', '--grpc-port=0', '--metrics-port=0', ...flags) // prettier-ignore
  const findings = JSON.parse(stdout) as Found[]
  return { status, by: (about) => findings.find((finding) => finding.about === about) as Found }
}

test('doctor finds nothing wrong with a machine that can serve', async () => {
  const { status, by } = await examine(`--model-repository=${folder}`, `--state-dir=${path.join(folder, 'new/state')}`)
  assert.equal(status, 0)
  for (const about of ['Node', 'ports', 'repository', 'state folder']) assert.equal(by(about).state, 'ok', about)
})

test(
  'doctor says what ONNX models lack to be on a GPU that is there',
  { skip: process.platform === 'win32' },
  async (t) => {
    const kept = { PATH: process.env['PATH'] ?? '', CUDA_VISIBLE_DEVICES: process.env['CUDA_VISIBLE_DEVICES'] }
    t.after(() => {
      process.env['PATH'] = kept.PATH
      if (kept.CUDA_VISIBLE_DEVICES === undefined) delete process.env['CUDA_VISIBLE_DEVICES']
      else process.env['CUDA_VISIBLE_DEVICES'] = kept.CUDA_VISIBLE_DEVICES
    })
    const flags = [`--model-repository=${folder}`, '--python=/no/such/python']
    process.env['CUDA_VISIBLE_DEVICES'] = ''
    assert.equal((await examine(...flags)).by('ONNX on the GPU'), undefined)
    await writeFile(path.join(folder, 'nvidia-smi'), '#!/bin/sh\necho "0, GPU-1, 9.0"\n', { mode: 0o755 })
    process.env['PATH'] = `${folder}:${kept.PATH}`
    process.env['CUDA_VISIBLE_DEVICES'] = '0'
    const { status, by } = await examine(...flags)
    assert.equal(status, 0, 'a server can start all the same')
    assert.equal(by('GPU').found, '1 that can be used')
    const { state, advice } = by('ONNX on the GPU')
    assert.equal(state, 'warn')
    assert.match(
      advice,
      /the Python '\/no\/such\/python' cannot be asked .*pip install "onnxruntime-gpu\[cuda,cudnn\]"/,
    )
  },
)

test('doctor says what is missing and what to do', async () => {
  const taken = createSocketServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => taken.once('listening', resolve))
  const port = (taken.address() as AddressInfo).port
  answers.set('/keys', [200, '{"keys":[]}'])
  const access = path.join(folder, 'access.yaml')
  await writeFile(access, `jwt: [{ issuer: 'https://issuer', audience: [me], jwks: '${url}/keys' }]\n`)
  const { status, by } = await examine(
    `--http-port=${port}`,
    '--model-repository=/no/such/models',
    '--rollout-store=redis://127.0.0.1:1',
    '--audit-log=/proc/nowhere/audit.jsonl',
    '--backend-config=python,interpreter=/no/such/python',
    `--access-config=${access}`,
  )
  taken.close()
  assert.equal(status, 1)
  const states = [
    'ports',
    'repository',
    'Redis of --rollout-store',
    'audit log folder',
    'Python',
    'keys of https://issuer',
  ]
  assert.deepEqual(
    states.map((about) => by(about).state),
    ['fail', 'fail', 'fail', 'fail', 'warn', 'fail'],
  )
  assert.ok(states.every((about) => by(about).advice !== ''))
  const { stdout } = await said(runDoctor, '--http-port=0', '--model-repository=/no/such/models')
  assert.match(stdout, /What to do:\n.*repository: make the folder, mount it/s)
  assert.equal((await said(runDoctor, '--no-such-flag')).status, 2)
})
