// The samples of deploy/ for Envoy, HAProxy and nginx in front of two real servers, and the client with two addresses: requests over HTTP
// and gRPC reach both servers of a proxy, and none fails when one of them is killed.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createGrpcClient, createHttpClient } from '../../src/client/node.ts'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { SteadyLoad } from './fleet-under-test.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const row = Int32Array.from({ length: 16 }, (_, i) => i)
const inputs = { INPUT0: { data: row, shape: [1, 16] }, INPUT1: { data: row, shape: [1, 16] } }

let folder: string
let a: ServerProcess
let b: ServerProcess
/** Of the server that is killed: it comes back at the same place. */
let flagsOfB: string[]

const flags = [`--model-repository=${exampleModels}`, '--model-control-mode=explicit', '--load-model=simple', '--orca=always'] // prettier-ignore

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'galatea-proxy-'))
  flagsOfB = [...flags, `--http-port=${await freePort()}`, `--grpc-port=${await freePort()}`]
  ;[a, b] = await Promise.all([startServerProcess(flags), startServerProcess(flagsOfB)])
})

after(async () => {
  // The last test killed the second one.
  await Promise.all([a.stop(), b.exited])
  rmSync(folder, { recursive: true })
})

/** The sample with the ports of this run in place of its own. */
async function sampleOf(file: string): Promise<{ path: string; http: number; grpc: number }> {
  const [http, grpc] = [await freePort(), await freePort()]
  let text = readFileSync(path.join(projectRoot, 'deploy', file), 'utf8')
  for (const [name, server] of [
    ['server-a', a],
    ['server-b', b],
  ] as const) {
    for (const [usual, port] of [
      ['8000', server.port],
      ['8001', server.grpcPort],
    ] as const) {
      text = text
        .replaceAll(`address: ${name}, port_value: ${usual}`, `address: 127.0.0.1, port_value: ${port}`)
        .replaceAll(new RegExp(`${name}:${usual}(.*) port 8000`, 'g'), `127.0.0.1:${port}$1 port ${server.port}`)
        .replaceAll(`${name}:${usual}`, `127.0.0.1:${port}`)
    }
  }
  text = text.replaceAll('10000', String(http)).replaceAll('10001', String(grpc)) // prettier-ignore
  assert.doesNotMatch(text, /server-[ab]/)
  const target = path.join(folder, path.basename(file))
  writeFileSync(target, text)
  return { path: target, http, grpc }
}

const successesOf = async (server: ServerProcess): Promise<number> => {
  const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  return Number(/nv_inference_request_success\{model="simple",version="1"\} (\d+)/.exec(page)?.[1] ?? 0)
}

const proxies = [
  { name: 'Envoy', tool: 'envoy', file: 'envoy/static.yaml', args: (config: string) => ['-c', config, '--use-dynamic-base-id', '--concurrency', '1', '-l', 'error'] },
  { name: 'HAProxy', tool: 'haproxy', file: 'haproxy/haproxy.cfg', args: (config: string) => ['-db', '-f', config] },
  { name: 'nginx', tool: 'nginx', file: 'nginx/nginx.conf', args: (config: string) => ['-p', folder, '-e', 'stderr', '-g', 'daemon off; pid nginx.pid;', '-c', config] },
] as const // prettier-ignore

for (const { name, tool, file, args } of proxies) {
  test(`${name} spreads requests over two servers, and none fails when one is killed`, async (context) => {
    const sample = await sampleOf(file)
    const proxy = spawn(await requireTool(tool), args(sample.path), { stdio: ['ignore', 'ignore', 'pipe'] })
    const ended = once(proxy, 'exit')
    let complaints = ''
    proxy.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
    const clients = [
      createHttpClient({ url: `127.0.0.1:${sample.http}`, retries: 0 }),
      createGrpcClient({ url: `127.0.0.1:${sample.grpc}`, retries: 0 }),
    ]
    context.after(async () => {
      await Promise.all(clients.map((client) => client.close()))
      // Not SIGKILL: the workers of nginx end with its master only so.
      proxy.kill('SIGTERM')
      await ended
    })
    const asks = clients.map((client) => () => client.infer('simple', inputs))
    for (const ask of asks) {
      await until(() => ask().then(() => true, () => false), `an answer of ${name}`, { seen: () => complaints }) // prettier-ignore
    }
    const before = await Promise.all([a, b].map(successesOf))
    const load = new SteadyLoad([...asks, ...asks])
    await until(
      async () => (await Promise.all([a, b].map(successesOf))).every((count, i) => count > (before[i] ?? 0)),
      'requests on both servers',
      { everyMs: 50, seen: () => complaints },
    )
    const errors = await killUnder(load)
    b = await startServerProcess(flagsOfB)
    // nginx does not keep the bodies of gRPC calls: what a server had begun to read when it was killed is lost. Two calls were under way.
    if (name !== 'nginx') assert.deepEqual(errors, [], complaints)
    else assert.ok(errors.length <= 2 && errors.every((error) => String(error).includes('status 502')), String(errors))
  })
}

/** Kills the second server, and gives what failed then. */
async function killUnder(load: SteadyLoad): Promise<unknown[]> {
  await load.more(40)
  b.signal('SIGKILL')
  await b.exited
  await load.more(80)
  return load.stop()
}

test('a client with two addresses goes on with the other server when one is killed', async () => {
  const options = { retryUnavailable: true }
  const clients = [
    createHttpClient({ url: [`127.0.0.1:${b.port}`, `127.0.0.1:${a.port}`], ...options }),
    createGrpcClient({ url: [`127.0.0.1:${b.grpcPort}`, `127.0.0.1:${a.grpcPort}`], ...options }),
  ]
  const before = await successesOf(b)
  const load = new SteadyLoad(clients.flatMap((client) => Array.from({ length: 3 }, () => () => client.infer('simple', inputs)))) // prettier-ignore
  await until(async () => (await successesOf(b)) > before, 'requests on the first server')
  assert.deepEqual(await killUnder(load), [])
  await Promise.all(clients.map((client) => client.close()))
  assert.throws(() => createHttpClient({ url: [] }), /url takes an address, or 1 to 64 of them, got 0/)
  assert.throws(() => createGrpcClient({ url: Array<string>(65).fill('a:1') }), /1 to 64 of them, got 65/)
})
