// The same small inference by TensorFlow Serving's API and by v2, in turn on one server: what the other protocol costs more.

import { createIdentityRepository } from '../test/e2e/identity-repository.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { encodeMessage } from '../src/protocol/grpc/message-codec.ts'
import { encodeServing } from '../src/protocol/tfserving/serving-messages.ts'
import { alternate, medianOf, medianRatio, type Bench, type Figure } from './bench.ts'
import { GrpcLoad } from './grpc-load-process.ts'
import { HttpLoad } from './http-load-process.ts'
import { identityRequest } from './infer-request.ts'
import { onCore } from './pinning.ts'

const elements = 16
const values = Array.from({ length: elements }, (_, index) => Math.fround(Math.sin(index) * 1000))
const raw = Buffer.from(Float32Array.from(values).buffer)
const model = 'identity_fp32'

function rowsRequest(): Buffer {
  const body = JSON.stringify({ instances: [values] })
  const head = `POST /v1/models/${model}:predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n`
  return Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n${body}`)
}

const v2Message = encodeMessage('ModelInferRequest', {
  modelName: model,
  inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1, elements] }],
  rawInputContents: [raw],
})
const tensorShape = { dim: [{ size: 1n }, { size: BigInt(elements) }] }
const predictMessage = (tensor: object): Buffer =>
  encodeServing('PredictRequest', {
    modelSpec: { name: model },
    inputs: new Map([['INPUT0', { dtype: 'DT_FLOAT', tensorShape, ...tensor }]]),
  })

type Load = AsyncDisposable & { run(seconds: number): Promise<object> }
type Case = {
  readonly what: string
  readonly open: () => Promise<readonly [tfserving: Load, v2: Load]>
  readonly cpu: (measured: object) => number
}

export const bench: Bench = {
  name: 'tfserving',
  summary: "CPU of a small inference by TensorFlow Serving's API, as a ratio to the same inference by v2",
  async run({ rounds, secondsPerRun, say }) {
    await using repository = await createIdentityRepository()
    const flags = [`--model-repository=${repository.path}`, '--allow-tfserving', '--tfserving-port=0']
    await using server = await startServerProcess([...flags, '--tfserving-tensor-content'], { prefix: onCore(0) })
    const http = { pid: server.pid, port: Number(new URL(server.url).port) }
    const grpc = { pid: server.pid, port: server.grpcPort }
    const calls = { connections: 4, concurrency: 16, isStream: false }
    const path = '/tensorflow.serving.PredictionService/Predict'
    const grpcCase = (what: string, message: Buffer): Case => ({
      what,
      open: async () => [
        await GrpcLoad.open(grpc, { ...calls, message, path }),
        await GrpcLoad.open(grpc, { ...calls, message: v2Message }),
      ],
      cpu: (measured) => (measured as { cpuUs: number }).cpuUs,
    })
    const cases: readonly Case[] = [
      {
        what: 'JSON, rows',
        open: async () => [
          await HttpLoad.open(http, 16, rowsRequest()),
          await HttpLoad.open(http, 16, identityRequest(elements, 'json')),
        ],
        cpu: (measured) => (measured as { cpuUsPerRequest: number }).cpuUsPerRequest,
      },
      grpcCase('gRPC, tensor_content', predictMessage({ tensorContent: raw })),
      grpcCase('gRPC, float_val', predictMessage({ floatVal: values })),
    ]
    const figures: Figure[] = []
    for (const { what, open, cpu } of cases) {
      const [tfserving, v2] = await open()
      try {
        for (const load of [tfserving, v2, tfserving, v2]) await load.run(Math.min(2, secondsPerRun * 2))
        const { ours, theirs } = await alternate(rounds, {
          ours: () => tfserving.run(secondsPerRun),
          theirs: () => v2.run(secondsPerRun),
        })
        const text = (runs: readonly object[]): string => `${medianOf(runs.map(cpu)).toFixed(0)} µs CPU`
        const detail = `TensorFlow Serving's API ${text(ours)}, v2 ${text(theirs)}`
        const target: Figure['target'] = { kind: 'at most', value: 1.15 }
        figures.push({ what: `CPU: ${what}`, value: medianRatio(ours, theirs, cpu), unit: '×', target, detail })
        say(`${what}: ${detail}`)
      } finally {
        await tfserving[Symbol.asyncDispose]()
        await v2[Symbol.asyncDispose]()
      }
    }
    return figures
  },
}
