// The sample deploy/envoy in front of two real servers: requests over HTTP and gRPC reach both, and none fails when one of them is
// killed.

import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createGrpcClient } from '../../src/client/grpc/grpc-client.ts'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const flags = [
  `--model-repository=${exampleModels}`,
  '--model-control-mode=explicit',
  '--load-model=simple',
  '--orca=always',
]
const row = Int32Array.from({ length: 16 }, (_, i) => i)
const numbers = { data: row, shape: [1, 16] }
const input = (name: string): object => ({ name, shape: [1, 16], datatype: 'INT32', data: [...row] })
const body = JSON.stringify({ inputs: [input('INPUT0'), input('INPUT1')] })

let folder: string
let a: ServerProcess
const children: ChildProcess[] = []

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'galatea-proxy-'))
  a = await startServerProcess(flags)
})

after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await a.stop()
  rmSync(folder, { recursive: true })
})

/** The sample with the ports of this run in place of its own. */
async function sampleOf(file: string, b: ServerProcess): Promise<{ path: string; http: number; grpc: number }> {
  const [http, grpc] = [await freePort(), await freePort()]
  let text = readFileSync(path.join(projectRoot, 'deploy', file), 'utf8')
  for (const [name, server] of [
    ['server-a', a],
    ['server-b', b],
  ] as const) {
    text = text
      .replaceAll(`address: ${name}, port_value: 8000`, `address: 127.0.0.1, port_value: ${server.port}`)
      .replaceAll(`address: ${name}, port_value: 8001`, `address: 127.0.0.1, port_value: ${server.grpcPort}`)
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

test('Envoy balances requests over two servers, and none fails when one is killed', async (context) => {
  const b = await startServerProcess(flags)
  const sample = await sampleOf('envoy/static.yaml', b)
  const proxy = spawn(
    await requireTool('envoy'),
    ['-c', sample.path, '--use-dynamic-base-id', '--concurrency', '1', '-l', 'error'],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  children.push(proxy)
  let complaints = ''
  proxy.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
  const grpc = createGrpcClient({ url: `127.0.0.1:${sample.grpc}` })
  context.after(async () => {
    await grpc.close()
    proxy.kill('SIGKILL')
    b.signal('SIGKILL')
    await b.exited
  })
  const inferHttp = async (): Promise<number> =>
    (await fetch(`http://127.0.0.1:${sample.http}/v2/models/simple/infer`, { method: 'POST', body })).status
  const inferGrpc = (): Promise<unknown> => grpc.infer('simple', { INPUT0: numbers, INPUT1: numbers })
  const isUp = async (ask: () => Promise<unknown>): Promise<boolean> =>
    ask().then(
      (status) => status === 200 || typeof status === 'object',
      () => false,
    )
  await until(async () => (await isUp(inferHttp)) && (await isUp(inferGrpc)), 'both ways', { seen: () => complaints })
  const before = [await successesOf(a), await successesOf(b)]
  await until(
    async () => {
      await Promise.all(Array.from({ length: 20 }, inferHttp))
      await inferGrpc()
      const now = [await successesOf(a), await successesOf(b)]
      return now.every((count, i) => count > (before[i] ?? 0))
    },
    'requests on both servers',
    { seen: () => complaints },
  )
  const statuses: number[] = []
  for (let i = 0; i < 60; i++) {
    if (i === 20) {
      b.signal('SIGKILL')
      await b.exited
    }
    statuses.push(await inferHttp())
    await inferGrpc()
  }
  assert.deepEqual([...new Set(statuses)], [200])
  const ended = once(proxy, 'exit')
  proxy.kill('SIGKILL')
  await ended
})
