// What a refusal costs the server beside a small inference, over HTTP and gRPC: a call without credentials, one over the limit of its
// tenant, and one that finds the queue of its model full.
// What no refusal can avoid is measured too: a server that reads the same bytes and writes fixed ones. Over HTTP that alone is about half of a
// small inference, so the target counts what comes on top of it.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { encodeMessage } from '../src/protocol/grpc/message-codec.ts'
import { accessFolder } from '../test/e2e/access-fixture.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { GrpcLoad } from './grpc-load-process.ts'
import { HttpLoad } from './http-load-process.ts'
import { inferRequest } from './infer-request.ts'
import { startScript } from './start-script.ts'
import { onCore } from './pinning.ts'

const rules = `
keys: keys.json
roles: { caller: { allow: [inference] } }
tenants: { free: {}, limited: { limits: [{ requests: 1/24h }] } }
`
/** One request runs for longer than the bench does, one waits, all others find the queue full. */
const full = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
instance_group { kind: KIND_CPU count: 1 }
parameters { key: "execute_delay_ms" value { string_value: "600000" } }
dynamic_batching { default_queue_policy { max_queue_size: 1 } }
`
const fullBody = '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,1],"data":[1]}]}'

const httpRequest = (model: string, key: string): Buffer => {
  const values = Float32Array.from({ length: 16 }, (_, i) => i / 3)
  const request = inferRequest(model, [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 16], values }], 'binary')
  const end = request.indexOf('\r\n') + 2
  const header = Buffer.from(key === '' ? '' : `X-Api-Key: ${key}\r\n`)
  return Buffer.concat([request.subarray(0, end), header, request.subarray(end)])
}

const grpcMessage = (modelName: string): Buffer =>
  encodeMessage('ModelInferRequest', {
    modelName,
    inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 16] }],
    rawInputContents: [Buffer.from(Float32Array.from({ length: 16 }, (_, i) => i / 3).buffer)],
  })

type Case = {
  readonly model: string
  readonly key: string
  readonly http: number[]
  readonly grpc: number[]
  readonly connections: number
}
type Measure = AsyncDisposable & { readonly run: (seconds: number) => Promise<number> }

type Target = { readonly pid: number; readonly port: number }

async function openHttp(target: Target, { model, key, http, connections }: Case): Promise<Measure> {
  const load = await HttpLoad.open({ ...target, statuses: http }, connections, httpRequest(model, key))
  const run = async (seconds: number): Promise<number> => (await load.run(seconds)).cpuUsPerRequest
  return { run, [Symbol.asyncDispose]: () => load[Symbol.asyncDispose]() }
}

async function openGrpc(target: Target, { model, key, grpc, connections }: Case): Promise<Measure> {
  const headers = key === '' ? [] : [['x-api-key', key] as const]
  const order = { connections: 4, concurrency: connections, message: grpcMessage(model), isStream: false }
  const load = await GrpcLoad.open(target, { ...order, headers, statuses: grpc })
  const run = async (seconds: number): Promise<number> => (await load.run(seconds)).cpuUs
  return { run, [Symbol.asyncDispose]: () => load[Symbol.asyncDispose]() }
}

export const bench: Bench = {
  name: 'refusals',
  summary: 'CPU of a refusal (401, 429, 503) over HTTP and gRPC, as a share of a small inference',
  async run({ rounds, secondsPerRun, say }) {
    const folder = await accessFolder(rules, ['m'])
    await mkdir(path.join(folder.root, 'models/full/1'), { recursive: true })
    await writeFile(path.join(folder.root, 'models/full/config.pbtxt'), full)
    const key = await folder.key('free', '--role', 'caller', '--tenant', 'free')
    const limited = await folder.key('limited', '--role', 'caller', '--tenant', 'limited')
    const server = await startServerProcess(folder.flags, { prefix: onCore(0) })
    const figures: Figure[] = []
    try {
      const headers = { 'x-api-key': key }
      const fill = { method: 'POST', headers, body: fullBody }
      for (let i = 0; i < 2; i++) void fetch(`${server.url}/v2/models/full/infer`, fill).catch(() => undefined)
      // The one request that the limit allows.
      await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', headers: { 'x-api-key': limited }, body: '{}' })
      const cases: Readonly<Record<string, Case>> = {
        'no credentials': { model: 'm', key: '', http: [401], grpc: [16], connections: 16 },
        'over the limit': { model: 'm', key: limited, http: [429], grpc: [8], connections: 16 },
        'queue full': { model: 'full', key, http: [503], grpc: [14], connections: 16 },
      }
      const inference: Case = { model: 'm', key, http: [200], grpc: [0], connections: 16 }
      for (const protocol of ['http', 'grpc'] as const) {
        const target = { pid: server.pid, port: protocol === 'http' ? server.port : server.grpcPort }
        const open = protocol === 'http' ? openHttp : openGrpc
        await using floor = await startScript('trivial-responder.ts', protocol)
        await using bareLoad = await open(floor, inference)
        await using inferLoad = await open(target, inference)
        for (const [what, one] of Object.entries(cases)) {
          await using load = await open(target, one)
          for (const warm of [load, inferLoad, bareLoad]) await warm.run(2)
          const { ours, theirs, bare } = await alternate(rounds, {
            ours: () => load.run(secondsPerRun),
            theirs: () => inferLoad.run(secondsPerRun),
            bare: () => bareLoad.run(secondsPerRun),
          })
          const same = (us: number): number => us
          const share = medianRatio(ours, theirs, same)
          const own = medianRatio(
            ours.map((us, i) => us - (bare[i] as number)),
            theirs.map((us, i) => us - (bare[i] as number)),
            same,
          )
          const detail = `${medianOf(ours).toFixed(1)} µs, an inference ${medianOf(theirs).toFixed(1)} µs, fixed bytes ${medianOf(bare).toFixed(1)} µs`
          say(`${protocol}, ${what}: ${detail}`)
          figures.push({ what: `${protocol}: ${what}, to an inference`, value: share, unit: '×', target: null, detail })
          figures.push({
            what: `${protocol}: ${what}, to an inference, without what fixed bytes cost`,
            value: own,
            unit: '×',
            target: { kind: 'at most', value: 0.2 },
            detail: '',
          })
        }
      }
    } finally {
      server.signal('SIGKILL')
      await server.exited
      await folder.remove()
    }
    return figures
  },
}
