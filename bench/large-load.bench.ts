// Batches of 8 pictures for ResNet-50, 4.8 MB each, over gRPC and over HTTP, at a given rate whether or not answers come: the p99 at 80 % of
// the peak, and what is left of the peak when clients offer once, twice and four times as much. The model answers with 8 numbers and takes 2 ms per
// batch without using a core, as a GPU would. The clients of gRPC send a part of each message in turn.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { encodeMessage } from '../src/protocol/grpc/message-codec.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { medianOf, type Bench, type Figure } from './bench.ts'
import { post } from './infer-request.ts'
import { OpenGrpcLoad } from './open-grpc-load.ts'
import { OpenHttpLoad, quantile, type OpenLoadResult } from './open-http-load.ts'
import { onCore } from './pinning.ts'
import { cpuSecondsOf, residentMibOf } from './process-usage.ts'

const rows = 8
const pictureBytes = 3 * 224 * 224 * 4
const underWay = 8
const grpcConnections = 4
const httpConnections = 64
const factors = [0.8, 1, 2, 4]

const config = `backend: "identity"
max_batch_size: 32
instance_group { kind: KIND_CPU count: 1 }
input { name: "PICTURES" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }
input { name: "NUMBERS" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "PICTURES_AGAIN" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }
output { name: "NUMBERS_AGAIN" data_type: TYPE_FP32 dims: [ 1 ] }
parameters { key: "execute_delay_ms" value { string_value: "2" } }
dynamic_batching { }
`

const tensors = [Buffer.alloc(rows * pictureBytes), Buffer.alloc(rows * 4)] as const
const inputs = [
  { name: 'PICTURES', datatype: 'FP32', shape: [rows, 3, 224, 224] },
  { name: 'NUMBERS', datatype: 'FP32', shape: [rows, 1] },
] as const

const grpcMessage = (): Buffer =>
  encodeMessage('ModelInferRequest', {
    modelName: 'pictures',
    inputs: [...inputs],
    outputs: [{ name: 'NUMBERS_AGAIN' }],
    rawInputContents: [...tensors],
  })

function httpRequest(): Buffer {
  const json = Buffer.from(
    JSON.stringify({
      inputs: inputs.map((input, i) => ({ ...input, parameters: { binary_data_size: tensors[i]?.length } })),
      outputs: [{ name: 'NUMBERS_AGAIN', parameters: { binary_data: true } }],
    }),
  )
  const length = `Inference-Header-Content-Length: ${json.length}\r\n`
  return post('pictures', length, Buffer.concat([json, ...tensors]))
}

/** One way to send the requests. */
type Way = {
  readonly name: string
  readonly atOnce: (seconds: number) => Promise<OpenLoadResult>
  readonly atRate: (perSecond: number, seconds: number) => Promise<OpenLoadResult>
}

const rateOf = (run: OpenLoadResult): number => run.okCount / run.seconds

async function measure(
  way: Way,
  pid: number,
  { rounds, seconds, say }: { rounds: number; seconds: number; say: (line: string) => void },
): Promise<Figure[]> {
  await way.atOnce(seconds)
  const peaks: number[] = []
  const runs = new Map<number, OpenLoadResult[]>(factors.map((factor) => [factor, []]))
  for (let round = 0; round < rounds; round++) {
    peaks.push(rateOf(await way.atOnce(seconds)))
    for (const factor of factors) {
      const usedSeconds = cpuSecondsOf(pid)
      const run = await way.atRate(medianOf(peaks) * factor, seconds)
      runs.get(factor)?.push(run)
      // What is answered after the run is not in its count.
      const cpuMs = factor > 1 ? NaN : ((cpuSecondsOf(pid) - usedSeconds) * 1000) / run.okCount
      say(
        `${way.name}, ${factor} × of ${medianOf(peaks).toFixed(0)}/s: ${rateOf(run).toFixed(0)}/s answered, ` +
          `${(run.refusedCount / run.seconds).toFixed(0)}/s refused, p50 ${quantile(run.okMs, 0.5).toFixed(1)} ms, ` +
          `p99 ${quantile(run.okMs, 0.99).toFixed(1)} ms, ${cpuMs.toFixed(2)} ms of processor each, ${residentMibOf(pid).toFixed(0)} MiB`,
      )
    }
  }
  const peak = medianOf(peaks)
  return factors.map((factor): Figure => {
    const ofFactor = runs.get(factor) ?? []
    const rate = medianOf(ofFactor.map(rateOf))
    const p99 = medianOf(ofFactor.map((run) => quantile(run.okMs, 0.99)))
    const refused = medianOf(ofFactor.map((run) => run.refusedCount / run.seconds))
    const detail = `${rate.toFixed(0)}/s of a peak of ${peak.toFixed(0)}/s, ${refused.toFixed(0)}/s refused, p99 ${p99.toFixed(1)} ms`
    return factor < 1
      ? {
          what: `4.8 MB over ${way.name}, p99 at ${factor} × the peak`,
          value: p99,
          unit: 'ms',
          target: { kind: 'at most', value: 10 },
          detail,
        }
      : {
          what: `4.8 MB over ${way.name}, answered at ${factor} × the peak`,
          value: rate / peak,
          unit: '×',
          target: factor > 1 ? { kind: 'at least', value: 0.9 } : null,
          detail,
        }
  })
}

export const bench: Bench = {
  name: 'large-load',
  summary: 'requests of 4.8 MB over gRPC and HTTP at 0.8, 1, 2 and 4 times the peak',
  async run({ rounds, secondsPerRun, say }) {
    const root = await mkdtemp(path.join(tmpdir(), 'galatea-large-load-'))
    try {
      await mkdir(path.join(root, 'pictures/1'), { recursive: true })
      await writeFile(path.join(root, 'pictures/config.pbtxt'), config)
      const server = await startServerProcess([`--model-repository=${root}`], { prefix: onCore(0) })
      try {
        const settings = { rounds, seconds: secondsPerRun, say }
        using grpc = await OpenGrpcLoad.open(server.grpcPort, grpcConnections, grpcMessage())
        const overGrpc: Way = {
          name: 'gRPC',
          atOnce: (seconds) => grpc.runClosed(underWay, seconds),
          atRate: (perSecond, seconds) => grpc.run(perSecond, seconds),
        }
        using few = await OpenHttpLoad.open(server.port, underWay, httpRequest())
        using many = await OpenHttpLoad.open(server.port, httpConnections, httpRequest())
        const overHttp: Way = {
          name: 'HTTP',
          atOnce: (seconds) => few.runClosed(seconds),
          atRate: (perSecond, seconds) => many.run(perSecond, seconds),
        }
        return [...(await measure(overGrpc, server.pid, settings)), ...(await measure(overHttp, server.pid, settings))]
      } finally {
        await server.stop()
      }
    } finally {
      await rm(root, { recursive: true, force: true })
    }
  },
}
