// An existing command line of tensorflow_model_server starts: by the command, by a link, with a models.config and with batching.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { connect } from 'node:tls'
import * as grpc from '@grpc/grpc-js'
import { Certificates } from '../../certificates.ts'
import { freePort } from '../../free-port.ts'
import { until } from '../../until.ts'
import { projectRoot } from '../server-process.ts'
import { versionedConfig } from './tfserving-repository.ts'

const folder = await mkdtemp(path.join(tmpdir(), 'galatea-tfserving-'))
after(() => rm(folder, { recursive: true, force: true }))

async function modelFolder(name: string, ...versions: string[]): Promise<string> {
  const base = path.join(folder, name)
  for (const version of versions) await mkdir(path.join(base, version), { recursive: true })
  await writeFile(path.join(base, 'config.pbtxt'), versionedConfig)
  return base
}

/** Starts the program and gives its REST address; `stop` resolves with all that it wrote. */
async function start(
  program: string,
  args: readonly string[],
): Promise<{ readonly url: string; readonly grpcPort: number; readonly stop: () => Promise<string> }> {
  const [port, grpcPort] = [await freePort(), await freePort()]
  const ports = [`--port=${grpcPort}`, `--rest_api_port=${port}`]
  const child = spawn(process.execPath, [program, ...args, ...ports], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  await until(() => output.includes('Started TensorFlow Serving REST service'), 'it listens', { seen: () => output })
  return {
    url: `http://127.0.0.1:${port}/v1/models`,
    grpcPort,
    stop: async () => {
      child.kill('SIGTERM')
      await ended
      return output
    },
  }
}

const galatea = path.join(projectRoot, 'bin/galatea.js')
const predict = async (url: string): Promise<unknown> => {
  const response = await fetch(`${url}:predict`, { method: 'POST', body: '{"instances": [[1.5]]}' })
  return response.json()
}

/** The certificate that a server shows to a client that trusts `ca`. */
function shownCertificate(port: number, ca: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca, ALPNProtocols: ['h2'] }, () => {
      resolve(String(socket.getPeerCertificate().subject['CN']))
      socket.destroy()
    })
    socket.once('error', reject)
  })
}

/** Asks a UNIX socket for ServerLive. */
function livesAt(socket: string): Promise<boolean> {
  const client = new grpc.Client(`unix:${socket}`, grpc.credentials.createInsecure())
  const same = (bytes: Buffer): Buffer => bytes
  const path = '/inference.GRPCInferenceService/ServerLive'
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, same, same, Buffer.alloc(0), (error, bytes) => {
      client.close()
      if (error === null) resolve(bytes?.equals(Buffer.from([8, 1])) === true)
      else reject(error)
    })
  })
}

test('one model by its name and folder, TLS by a file; a new version is found', async () => {
  const base = await modelFolder('half', '1')
  const made = new Certificates().make('ca').make('server', 'ca', 'IP:127.0.0.1')
  const pem = (name: string): string => readFileSync(made.file(name), 'utf8')
  const lines = [
    `server_key: ${JSON.stringify(pem('server.key'))}`,
    `server_cert: ${JSON.stringify(pem('server.crt'))}`,
  ]
  await writeFile(path.join(folder, 'ssl'), lines.join('\n'))
  const { url, grpcPort, stop } = await start(galatea, [
    'tfserving',
    '--model_name=half',
    `--model_base_path=${base}`,
    `--ssl_config_file=${folder}/ssl`,
    '--grpc_max_threads=4',
  ])
  assert.equal(await shownCertificate(grpcPort, pem('ca.crt')), 'server')
  assert.deepEqual(await predict(`${url}/half`), { predictions: [[1.5]] })
  for (const [method, path] of [
    ['GET', 'half:predict'],
    ['POST', 'half'],
    ['POST', 'half:sort'],
    ['GET', 'half:sort'],
    ['PUT', 'half/metadata'],
    ['GET', ''],
  ] as const) {
    // prettier-ignore
    const answer = await fetch(`${url}/${path}`, { method })
    const error = `Malformed request: ${method} /v1/models/${path}`
    assert.deepEqual([answer.status, await answer.json()], [400, { error }])
  }
  // The words of a path may come in capital letters, the method may not.
  const capitals = url.replace('/v1/models', '/V1/Models')
  assert.deepEqual(await predict(`${capitals}/half/Versions/1`), { predictions: [[1.5]] })
  assert.equal((await fetch(`${capitals}/half:PREDICT`, { method: 'POST' })).status, 400)
  const preflight = (origin: string): Promise<Response> => fetch(`${url}/half`, { method: 'OPTIONS', headers: { origin } }) // prettier-ignore
  for (const [origin, status] of [
    ['https://x.org', 200],
    ['x', 400],
  ] as const) {
    // prettier-ignore
    const answer = await preflight(origin)
    assert.deepEqual([answer.status, await answer.text()], [status, ''])
  }
  assert.equal((await fetch(new URL('/statuspage', url))).status, 404)
  const listed = await fetch(url, { method: 'POST' })
  assert.deepEqual(await listed.json(), { error: 'Malformed request: POST /v1/models' })
  await mkdir(path.join(base, '3'))
  const versions = async (): Promise<string> => (await fetch(`${url}/half`)).text()
  await until(async () => /"version": "3",\s+"state": "AVAILABLE"/.test(await versions()), 'version 3 serves')
  assert.match(await stop(), /--grpc_max_threads has no effect/)
})

test("a link of the program's name, a models.config with labels, batching parameters and monitoring", async () => {
  const link = path.join(folder, 'tensorflow_model_server')
  await symlink(galatea, link)
  const [one, two] = [await modelFolder('one', '1', '2'), await modelFolder('two', '5')]
  const config = (...models: string[]): Promise<void> =>
    writeFile(path.join(folder, 'models.config'), `model_config_list { ${models.join('\n')} }`)
  const first = `config { name: "first" base_path: "${one}" model_platform: "tensorflow"
    model_version_policy { specific { versions: 1 versions: 2 } }
    version_labels { key: "stable" value: 1 } version_labels { key: "canary" value: 2 } }`
  const slow = await modelFolder('slow', '1')
  const delay = 'parameters { key: "execute_delay_ms" value { string_value: "3000" } }'
  await writeFile(path.join(slow, 'config.pbtxt'), `${versionedConfig} ${delay}`)
  await config(first, `config { name: "slow" base_path: "${slow}" }`)
  await writeFile(path.join(folder, 'batching'), 'max_batch_size { value: 4 } batch_timeout_micros { value: 100 }')
  await writeFile(path.join(folder, 'monitoring'), 'prometheus_config { enable: true, path: "/monitoring/metrics" }')
  const { url, stop } = await start(link, [
    `--model_config_file=${folder}/models.config`,
    '--model_config_file_poll_wait_seconds=1',
    '--enable_batching',
    `--batching_parameters_file=${folder}/batching`,
    `--monitoring_config_file=${folder}/monitoring`,
    '--rest_api_timeout_in_ms=1500',
    `--grpc_socket_path=${folder}/grpc.sock`,
  ])
  assert.equal(await livesAt(`${folder}/grpc.sock`), true)
  const late = fetch(`${url}/slow:predict`, { method: 'POST', body: '{"instances": [[1.5]]}' })
  assert.deepEqual(await predict(`${url}/first/labels/stable`), { predictions: [[1.5]] })
  assert.deepEqual(await predict(`${url}/first/versions/2`), { predictions: [[1.5]] })
  const metrics = await (await fetch(new URL('/monitoring/metrics', url))).text()
  assert.match(metrics, /nv_inference_request_success\{model="first",version="1"\} 1/)
  await config(`config { name: "second" base_path: "${two}" }`)
  await until(async () => (await fetch(`${url}/second`)).ok, 'the new model serves')
  await until(
    async () => (await fetch(`${url}/first:predict`, { method: 'POST', body: '{}' })).status === 404,
    'the old one is gone',
  )
  assert.equal((await late).status, 504)
  await stop()
})
