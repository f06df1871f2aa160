// What the suite sends: models in repositories of their own, and their requests in every form.

import { randomUUID } from 'node:crypto'
import { appendFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { encodeMessage } from '../src/protocol/grpc/message-codec.ts'
import type { LoadSetup } from '../src/perf/load/load-order.ts'
import { exampleModels, projectRoot } from '../test/e2e/server-process.ts'
import { inferRequest, post } from './infer-request.ts'
import { imageElements, prepareResnetRepository } from './resnet-model.ts'
import { wideSize, writeWideModel } from './wide-model.ts'

export const transports = ['binary', 'json', 'grpc', 'shared-memory'] as const
export type Transport = (typeof transports)[number]

type WorkloadTensor = {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly values: Float32Array | Int32Array
}

export type Workload = {
  readonly name: string
  readonly summary: string
  readonly model: string
  readonly inputs: readonly WorkloadTensor[]
  /** With their bytes, for regions in shared memory. */
  readonly outputs: readonly (readonly [name: string, bytes: number])[]
  readonly transports: readonly Transport[]
  /** Null: those of the run. */
  readonly concurrencies: readonly number[] | null
  /** Requests that a measurement waits for at least. */
  readonly atLeast: number
  /** Makes the repository in a folder, or names one that is there. `instances`: how many of each model. */
  prepare(root: string, instances: number): Promise<string>
}

const oneThread = 'parameters { key: "intra_op_thread_count" value { string_value: "1" } }\n'
const group = (instances: number): string => `instance_group { kind: KIND_CPU count: ${instances} }\n`
const numbers = (length: number): Float32Array => Float32Array.from({ length }, (_, i) => (i % 17) / 3)
const fp32 = (name: string, shape: readonly number[]): WorkloadTensor => ({
  name,
  datatype: 'FP32',
  shape,
  values: numbers(shape.reduce((product, dim) => product * dim, 1)),
})
const int32 = (name: string): WorkloadTensor => ({
  name,
  datatype: 'INT32',
  shape: [1, 16],
  values: Int32Array.from({ length: 16 }, (_, i) => i),
})

async function writeModel(root: string, name: string, config: string): Promise<void> {
  await mkdir(path.join(root, name, '1'), { recursive: true })
  await writeFile(path.join(root, name, 'config.pbtxt'), config)
}

/** An example with one thread and so many instances, whatever its configuration says. */
async function copyExample(root: string, name: string, instances: number): Promise<void> {
  await cp(path.join(exampleModels, name), path.join(root, name), { recursive: true })
  const config = await readFile(path.join(root, name, 'config.pbtxt'), 'utf8')
  const plain = config
    .replace(/^instance_group \{[^}]*\}\n/m, '')
    .replace(/^dynamic_batching .*\n/m, '')
    .replace(oneThread, '')
  await writeFile(path.join(root, name, 'config.pbtxt'), `${plain}\n${group(instances)}${oneThread}`)
}

const chain = `platform: "ensemble"
max_batch_size: 8
input [ { name: "A" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "B" data_type: TYPE_INT32 dims: [ 16 ] } ]
output [ { name: "C" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "D" data_type: TYPE_INT32 dims: [ 16 ] } ]
ensemble_scheduling { step [
  { model_name: "simple" model_version: -1
    input_map { key: "INPUT0" value: "A" } input_map { key: "INPUT1" value: "B" }
    output_map { key: "OUTPUT0" value: "sum" } output_map { key: "OUTPUT1" value: "difference" } },
  { model_name: "simple" model_version: -1
    input_map { key: "INPUT0" value: "sum" } input_map { key: "INPUT1" value: "difference" }
    output_map { key: "OUTPUT0" value: "C" } output_map { key: "OUTPUT1" value: "D" } }
] }
`

const wideOf = (suffix: 'alone' | 'batched'): Workload => ({
  name: `wide-${suffix}`,
  summary: 'ONNX, two layers of 2048 × 2048: gains from batches',
  model: `wide_${suffix}`,
  inputs: [fp32('X', [1, wideSize])],
  outputs: [['Y', 64]],
  transports: ['binary'],
  concurrencies: [64],
  atLeast: 64,
  prepare: async (root) => {
    await writeWideModel(root, `wide_${suffix}`, suffix === 'alone' ? '' : 'dynamic_batching { }\n')
    return root
  },
})

export const workloads: readonly Workload[] = [
  {
    name: 'identity',
    summary: 'the identity backend, FP32[16]',
    model: 'identity_fp32',
    inputs: [fp32('INPUT0', [1, 16])],
    outputs: [['OUTPUT0', 64]],
    transports,
    concurrencies: null,
    atLeast: 1,
    prepare: async (root, instances) => {
      const tensors =
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\noutput { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }\n'
      await writeModel(root, 'identity_fp32', `backend: "identity"\nmax_batch_size: 8\n${tensors}${group(instances)}`)
      return root
    },
  },
  {
    name: 'simple',
    summary: 'ONNX, sum and difference of INT32[16]',
    model: 'simple',
    inputs: [int32('INPUT0'), int32('INPUT1')],
    outputs: [['OUTPUT0', 64], ['OUTPUT1', 64]], // prettier-ignore
    transports,
    concurrencies: null,
    atLeast: 1,
    prepare: async (root, instances) => {
      await copyExample(root, 'simple', instances)
      return root
    },
  },
  {
    name: 'digits',
    summary: 'ONNX, a small network, FP32[64]',
    model: 'digits',
    inputs: [fp32('pixels', [1, 64])],
    outputs: [['scores', 40]],
    transports,
    concurrencies: null,
    atLeast: 1,
    prepare: async (root, instances) => {
      await copyExample(root, 'digits', instances)
      return root
    },
  },
  {
    name: 'digits-delayed',
    summary: 'ONNX, the same network with dynamic batching and a delay of 500 µs',
    model: 'digits',
    inputs: [fp32('pixels', [1, 64])],
    outputs: [['scores', 40]],
    transports: ['grpc'],
    concurrencies: null,
    atLeast: 1,
    prepare: async (root, instances) => {
      await copyExample(root, 'digits', instances)
      await appendFile(
        path.join(root, 'digits/config.pbtxt'),
        'dynamic_batching { preferred_batch_size: 64 max_queue_delay_microseconds: 500 }\n',
      )
      return root
    },
  },
  {
    name: 'add_sub',
    summary: 'Python, sum and difference of FP32[4]',
    model: 'add_sub',
    inputs: [fp32('INPUT0', [4]), fp32('INPUT1', [4])],
    outputs: [['OUTPUT0', 16], ['OUTPUT1', 16]], // prettier-ignore
    transports: ['binary', 'json', 'grpc'],
    concurrencies: null,
    atLeast: 1,
    prepare: async (root) => {
      await cp(path.join(projectRoot, 'examples/python/add_sub'), path.join(root, 'add_sub'), { recursive: true })
      return root
    },
  },
  {
    name: 'ensemble',
    summary: 'two steps of `simple`',
    model: 'chain',
    inputs: [int32('A'), int32('B')],
    outputs: [['C', 64], ['D', 64]], // prettier-ignore
    transports: ['binary', 'grpc'],
    concurrencies: null,
    atLeast: 1,
    prepare: async (root, instances) => {
      await copyExample(root, 'simple', instances)
      await writeModel(root, 'chain', chain)
      return root
    },
  },
  {
    name: 'resnet50',
    summary: "ONNX, a network of ResNet-50's shape at 224 × 224, random weights",
    model: 'resnet50',
    inputs: [fp32('image', [1, 3, 224, 224])],
    outputs: [['scores', 4000]],
    transports: ['binary', 'grpc', 'shared-memory'],
    concurrencies: [1, 4],
    atLeast: 8,
    prepare: () => prepareResnetRepository(path.join(projectRoot, '.cache/bench')),
  },
  wideOf('alone'),
  wideOf('batched'),
]

if (imageElements !== workloads.find(({ name }) => name === 'resnet50')?.inputs[0]?.values.length) {
  throw new Error('the image has another size than the network')
}

type RequestOf = Pick<LoadSetup, 'protocol' | 'fields' | 'requests'>

/** What the load generator is told: one request, again and again, whatever is answered. */
export const loadOf = (
  workload: Workload,
  transport: Transport,
  server: { readonly port: number; readonly grpcPort: number },
  regions: SharedRegions | null,
): Omit<LoadSetup, 'counters' | 'share'> => ({
  ...requestOf(workload, transport, regions),
  target: { host: '127.0.0.1', port: transport === 'grpc' ? server.grpcPort : server.port, tls: null },
  expected: null,
  isDecoupled: false,
  sequence: null,
  isExporting: false,
})

function requestOf(workload: Workload, transport: Transport, regions: SharedRegions | null): RequestOf {
  if (transport === 'grpc') return { protocol: 'grpc', fields: grpcFields, requests: prepared(grpcMessage(workload)) }
  const bytes =
    transport === 'shared-memory' && regions !== null
      ? regions.request
      : inferRequest(workload.model, workload.inputs, transport === 'json' ? 'json' : 'binary')
  return { protocol: 'http', fields: [], requests: prepared(bytes) }
}

const prepared = (head: Buffer): RequestOf['requests'] => [
  [{ head, tail: Buffer.alloc(0), stamp: null, compression: 'none', stream: 0, step: 0 }],
]

const grpcFields: RequestOf['fields'] = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/inference.GRPCInferenceService/ModelInfer'],
  [':authority', '127.0.0.1'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
]

const bytesOf = ({ values }: WorkloadTensor): Buffer => Buffer.from(values.buffer, values.byteOffset, values.byteLength)

const grpcMessage = ({ model, inputs }: Workload): Buffer =>
  Buffer.from(
    encodeMessage('ModelInferRequest', {
      modelName: model,
      inputs: inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape: [...shape] })),
      rawInputContents: inputs.map(bytesOf),
    }),
  )

/** The tensors of a workload in shared memory, and the request that names them. */
export class SharedRegions implements AsyncDisposable {
  readonly request: Buffer
  readonly #places: readonly (readonly [name: string, bytes: number])[]
  readonly #ports = new Set<number>()

  private constructor(request: Buffer, places: readonly (readonly [name: string, bytes: number])[]) {
    this.request = request
    this.#places = places
  }

  static async create({ model, inputs, outputs }: Workload): Promise<SharedRegions> {
    const run = randomUUID().slice(0, 8)
    const place = (role: string, bytes: number): { name: string; parameters: object } => {
      const name = `galatea-suite-${run}-${role}`
      return { name, parameters: { shared_memory_region: name, shared_memory_byte_size: bytes } }
    }
    const ins = inputs.map((input) => ({ input, ...place(`in-${input.name}`, input.values.byteLength) }))
    const outs = outputs.map(([output, bytes]) => ({ output, bytes, ...place(`out-${output}`, bytes) }))
    for (const { input, name } of ins) await writeFile(`/dev/shm/${name}`, bytesOf(input))
    for (const { bytes, name } of outs) await writeFile(`/dev/shm/${name}`, Buffer.alloc(bytes))
    const body = {
      inputs: ins.map(({ input: { name, datatype, shape }, parameters }) => ({ name, datatype, shape, parameters })),
      outputs: outs.map(({ output, parameters }) => ({ name: output, parameters })),
    }
    const places = [
      ...ins.map(({ name, input }) => [name, input.values.byteLength] as const),
      ...outs.map(({ name, bytes }) => [name, bytes] as const),
    ]
    return new SharedRegions(post(model, '', Buffer.from(JSON.stringify(body))), places)
  }

  /** With a server that may see them. Twice is fine. */
  async register(port: number): Promise<void> {
    if (this.#ports.has(port)) return
    this.#ports.add(port)
    for (const [name, bytes] of this.#places) {
      const url = `http://127.0.0.1:${port}/v2/systemsharedmemory/region/${name}/register`
      const body = JSON.stringify({ key: `/${name}`, byte_size: bytes })
      const answer = await fetch(url, { method: 'POST', body })
      if (!answer.ok) throw new Error(`cannot register ${name}: ${await answer.text()}`)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const [name] of this.#places) await rm(`/dev/shm/${name}`, { force: true })
  }
}
