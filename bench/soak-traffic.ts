// Every kind of traffic, error and fault of a soak, as a process of its own: it gets the ports as its argument, and for each
// `{ seconds }` runs all kinds at once for so long and answers with what came of them.

import { connect } from 'node:net'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createGrpcClient, createHttpClient, createSharedMemoryRegion } from '../src/client/node.ts'
import { projectRoot } from '../test/e2e/server-process.ts'

export type SoakPorts = { readonly http: string; readonly grpc: string; readonly metrics: string }
export type TrafficOrder = { readonly seconds: number }
/** How often a kind of traffic ended well, and how often with an error, which most kinds do not. */
export type TrafficReport = Readonly<Record<string, { answered: number; failed: number }>>

const ports = JSON.parse(process.argv[2] ?? '{}') as SoakPorts
const http = createHttpClient({ url: `http://${ports.http}`, retries: 0 })
const packed = createHttpClient({ url: `http://${ports.http}`, retries: 0, compression: 'gzip' })
const grpc = createGrpcClient({ url: `http://${ports.grpc}`, retries: 0 })
const picture = await readFile(path.join(projectRoot, 'examples/images/seven.png'))

const pair = { INPUT0: new Int32Array(16).fill(2), INPUT1: new Int32Array(16).fill(1) }
const simple = {
  INPUT0: { data: pair.INPUT0, shape: [1, 16] },
  INPUT1: { data: pair.INPUT1, shape: [1, 16] },
}
const addSub = { INPUT0: new Float32Array(4).fill(2), INPUT1: new Float32Array(4).fill(1) }
const large = { IN: new Float32Array(100_000).fill(0.5) }
const small = { IN: new Float32Array(4) }
const image = { image: { data: [picture], shape: [1, 1], dataType: 'BYTES' } } as const

const post = async (route: string, body: unknown): Promise<void> => {
  const response = await fetch(`http://${ports.http}${route}`, { method: 'POST', body: JSON.stringify(body) })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
}

async function withRegion(client: typeof http | typeof grpc): Promise<void> {
  await using region = await createSharedMemoryRegion({ byteSize: 1 << 20 })
  await region.register(client)
  const placed = await region.write(large.IN)
  const sharedMemory = region.reserve(large.IN.byteLength)
  await client.infer('plain', { IN: placed }, { outputs: [{ name: 'OUT', sharedMemory }] })
}

/** Sends the beginning of a request, or all of it, and is gone before the answer. */
async function cutOff(address: string, bytes: string): Promise<void> {
  const [host, port] = address.split(':')
  const socket = connect(Number(port), host)
  socket.on('error', () => undefined)
  socket.write(bytes)
  await pause(10)
  socket.destroy()
}

const slowBody = JSON.stringify({ inputs: [{ name: 'IN', shape: [1], datatype: 'FP32', data: [1] }] })
const slowHead = `POST /v2/models/slow/infer HTTP/1.1\r\nhost: a\r\ncontent-length: ${slowBody.length}\r\n\r\n`

type Kind = {
  readonly name: string
  /** Between two of them, on each of its lanes. */
  readonly everyMs: number
  readonly lanes?: number
  act(): Promise<unknown>
}

const kinds: readonly Kind[] = [
  { name: 'HTTP binary', everyMs: 2, lanes: 4, act: () => http.infer('simple', simple) },
  { name: 'HTTP JSON', everyMs: 5, lanes: 2, act: () => http.infer('simple', simple, { encoding: 'json' }) },
  { name: 'HTTP, large JSON', everyMs: 200, act: () => http.infer('plain', large, { encoding: 'json' }) },
  { name: 'HTTP, packed', everyMs: 50, act: () => packed.infer('plain', large) },
  { name: 'gRPC', everyMs: 2, lanes: 4, act: () => grpc.infer('simple', simple) },
  { name: 'gRPC, large', everyMs: 100, act: () => grpc.infer('plain', large) },
  { name: 'Python model', everyMs: 5, lanes: 2, act: () => grpc.infer('add_sub', addSub) },
  { name: 'ensemble', everyMs: 20, act: () => http.infer('reading', image) },
  {
    name: 'gRPC stream',
    everyMs: 50,
    async act() {
      const inputs = { IN: new Int32Array([1, 2, 3]), DELAY: new Uint32Array([1, 1, 1]) }
      for await (const answer of grpc.inferStream('repeat', inputs)) void answer
    },
  },
  {
    name: 'gRPC stream, left early',
    everyMs: 200,
    async act() {
      const inputs = { IN: new Int32Array([1, 2, 3]), DELAY: new Uint32Array([1, 5, 5]) }
      for await (const answer of grpc.inferStream('repeat', inputs)) {
        void answer
        break
      }
    },
  },
  { name: 'generate', everyMs: 20, act: () => post('/v2/models/shout/generate', { TEXT: 'a word' }) },
  { name: 'generate_stream', everyMs: 50, act: () => post('/v2/models/shout/generate_stream', { TEXT: 'a word' }) },
  { name: 'KServe v1', everyMs: 20, act: () => post('/v1/models/plain:predict', { instances: [1, 2, 3] }) },
  {
    name: 'sequence',
    everyMs: 50,
    async act() {
      const sequence = grpc.sequence('steps')
      await sequence.infer(small)
      await sequence.infer(small)
      await sequence.end(small)
    },
  },
  { name: 'shared memory, HTTP', everyMs: 100, act: () => withRegion(http) },
  { name: 'shared memory, gRPC', everyMs: 100, act: () => withRegion(grpc) },
  { name: 'cancelled, HTTP', everyMs: 50, act: () => http.infer('slow', small, { timeoutMs: 20 }) },
  { name: 'cancelled, gRPC', everyMs: 50, act: () => grpc.infer('slow', small, { timeoutMs: 20 }) },
  { name: 'connection cut in a request', everyMs: 50, act: () => cutOff(ports.http, slowHead) },
  { name: 'connection cut before the answer', everyMs: 50, act: () => cutOff(ports.http, slowHead + slowBody) },
  { name: 'gRPC connection of noise', everyMs: 100, act: () => cutOff(ports.grpc, `PRI * HTTP/2.0\r\n${slowBody}`) },
  { name: 'wrong shape', everyMs: 20, act: () => http.infer('simple', { INPUT0: pair.INPUT0 }) },
  { name: 'unknown model', everyMs: 20, act: () => grpc.infer(`none-${Math.random()}`, small) },
  { name: 'unknown path', everyMs: 20, act: () => post(`/v2/${Math.random()}`, {}) },
  { name: 'broken JSON', everyMs: 20, act: () => post('/v2/models/simple/infer', { inputs: [{ name: 5 }] }) },
  { name: 'Python exception', everyMs: 50, act: () => http.infer('faulty', { IN: new Float32Array([1]) }) },
  { name: 'Python error', everyMs: 50, act: () => grpc.infer('faulty', { IN: new Float32Array([3]) }) },
  { name: 'Python worker ends', everyMs: 3000, act: () => http.infer('faulty', { IN: new Float32Array([2]) }) },
  { name: 'TypeScript exception', everyMs: 50, act: () => post('/v2/models/shout/generate', { TEXT: 'fail' }) },
  { name: 'TypeScript worker ends', everyMs: 3000, act: () => post('/v2/models/shout/generate', { TEXT: 'exit' }) },
  {
    name: 'metrics',
    everyMs: 500,
    act: async () => (await fetch(`http://${ports.metrics}/metrics`)).text(),
  },
  { name: 'statistics', everyMs: 200, act: () => grpc.statistics() },
  { name: 'index', everyMs: 200, act: () => http.repositoryIndex() },
  { name: 'health', everyMs: 50, act: () => http.isReady() },
]

async function runAll(seconds: number): Promise<TrafficReport> {
  const endMs = performance.now() + seconds * 1000
  const report: Record<string, { answered: number; failed: number }> = {}
  const lane = async (kind: Kind): Promise<void> => {
    const counts = (report[kind.name] ??= { answered: 0, failed: 0 })
    while (performance.now() < endMs) {
      await kind.act().then(
        () => counts.answered++,
        () => counts.failed++,
      )
      await pause(kind.everyMs)
    }
  }
  await Promise.all(kinds.flatMap((kind) => Array.from({ length: kind.lanes ?? 1 }, () => lane(kind))))
  return report
}

process.on('message', ({ seconds }: TrafficOrder) => {
  void runAll(seconds).then((report) => process.send?.(report))
})
process.on('disconnect', () => process.exit())
