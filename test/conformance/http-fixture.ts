// An HTTP front end on a real Engine whose models are small functions: what the recorded cases' models do, and a few
// that misbehave on purpose.

import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { SystemClock, type Clock } from '../../src/base/clock.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { ServerError, type ErrorCode } from '../../src/base/server-error.ts'
import { IdentityBackend } from '../../src/backends/identity/identity-backend.ts'
import { Engine } from '../../src/engine/engine.ts'
import { ServingModels } from '../../src/frontends/tfserving/serving-models.ts'
import { createHttpPort } from '../../src/http-front-ends.ts'
import { tfservingFrontEnd, type TfservingFrontEnd } from '../../src/tfserving-front-end.ts'
import type { HttpPort } from '../../src/ports/http/http-port.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import type { HttpOptions } from '../../src/ports/http/http-options.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { emptyModelConfig } from '../../src/config/model-config.ts'
import type { PolledModel } from '../../src/repository/model-repository.ts'
import { parseModelConfigText } from '../../src/repository/text-format-reader.ts'
import { dataTypes, type DataType } from '../../src/tensor/data-type.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import { engineOptions } from '../fixtures/engine-options.ts'
import { FakeBackend } from '../fakes/fake-backend.ts'
import { answerWanted, answerWithCopy } from '../fakes/held-instance.ts'

export type ScriptedModel = (request: InferenceRequest) => void

const clock = new SystemClock()

const inputOf = (request: InferenceRequest, name: string): Tensor =>
  request.inputs.find((input) => input.name === name) as Tensor

const numbers = (tensor: Tensor): number[] => {
  const view = new DataView(tensor.bytes.buffer, tensor.bytes.byteOffset, tensor.bytes.byteLength)
  return Array.from({ length: tensor.bytes.length / 4 }, (_, i) =>
    tensor.dataType === 'FP32' ? view.getFloat32(i * 4, true) : view.getInt32(i * 4, true),
  )
}

const arrays: Partial<Record<DataType, (values: number[]) => ArrayBufferView>> = {
  FP64: (values) => Float64Array.from(values),
  FP32: (values) => Float32Array.from(values),
  FP16: (values) => Float16Array.from(values),
  INT8: (values) => Int8Array.from(values),
  INT32: (values) => Int32Array.from(values),
  INT64: (values) => BigInt64Array.from(values, (value) => BigInt(Math.trunc(value))),
  UINT8: (values) => Uint8Array.from(values),
  UINT64: (values) => BigUint64Array.from(values, (value) => BigInt(Math.trunc(value))),
  BOOL: (values) => Uint8Array.from(values, (value) => Number(value !== 0)),
}

const tensorOf = (name: string, dataType: DataType, shape: readonly number[], values: number[]): Tensor => {
  const make = arrays[dataType]
  if (make === undefined) throw new Error(`the fixture makes no ${dataType}`)
  const { buffer, byteOffset, byteLength } = make(values)
  return new Tensor(name, dataType, shape, new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength))
}

export const bytesOf = (name: string, shape: readonly number[], texts: readonly string[]): Tensor => {
  const parts = texts.flatMap((text) => {
    const length = Buffer.alloc(4)
    length.writeUInt32LE(Buffer.byteLength(text))
    return [length, Buffer.from(text)]
  })
  return new Tensor(name, 'BYTES', shape, Buffer.concat(parts))
}

const addSub: ScriptedModel = (request) => {
  const [a, b] = [inputOf(request, 'INPUT0'), inputOf(request, 'INPUT1')]
  const [left, right] = [numbers(a), numbers(b)]
  answerWanted(request, [
    tensorOf(
      'OUTPUT0',
      a.dataType,
      a.shape,
      left.map((value, i) => value + (right[i] as number)),
    ),
    tensorOf(
      'OUTPUT1',
      a.dataType,
      a.shape,
      left.map((value, i) => value - (right[i] as number)),
    ),
  ])
}

const classify: ScriptedModel = (request) => {
  const scores = inputOf(request, 'SCORES')
  const values = numbers(scores)
  const kinds = Object.keys(arrays) as DataType[]
  answerWanted(request, [
    ...kinds.map((kind) => tensorOf(`OUT_${kind}`, kind, scores.shape, values)),
    bytesOf('OUT_BYTES', scores.shape, values.map(String)),
  ])
}

const errorCodes: (ErrorCode | null)[] = [
  null,
  'UNKNOWN',
  'INTERNAL',
  'NOT_FOUND',
  'INVALID_ARG',
  'UNAVAILABLE',
  'UNSUPPORTED',
  'ALREADY_EXISTS',
  'CANCELLED',
]

const fail: ScriptedModel = (request) => {
  const number = numbers(inputOf(request, 'CODE'))[0] as number
  const code = errorCodes[number] ?? null
  const out = tensorOf('OUT', 'INT32', [1], [number])
  if (code !== null) request.fail(new ServerError(code, `told to fail: ${code}`))
  else if (number === 14 || number === 15) request.respond(InferenceResponse.of([]))
  else if (number === 19) request.respond(InferenceResponse.of([out, out]))
  else if (number === 20) request.fail(new ServerError('INTERNAL', 'ünïcode "quoted" \n line'))
  else if (number === 101) request.respond(InferenceResponse.finalFlag())
  else if (number === 102) {
    request.respond(InferenceResponse.of([out], { isFinal: false }))
    request.respond(InferenceResponse.of([out]))
  } else if (number === 103) {
    request.respond(InferenceResponse.of([out], { isFinal: false }))
    request.respond(InferenceResponse.finalFlag())
  } else request.respond(InferenceResponse.of([out]))
}

const pythonJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
    return `{${members.map(([key, member]) => `${pythonJson(key)}: ${pythonJson(member)}`).join(', ')}}`
  }
  if (typeof value === 'bigint') return String(value)
  const text = JSON.stringify(value)
  return text.replaceAll(/[\u0080-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const inspectRequest: ScriptedModel = (request) => {
  const isAll = request.requestedOutputs.length === 0
  const seen = {
    id: request.id,
    correlation_id: request.correlationId,
    flags: Number(request.isSequenceStart) + 2 * Number(request.isSequenceEnd),
    timeout: request.timeoutUs,
    parameters: Object.fromEntries(request.parameters),
    outputs: isAll ? ['ECHO', 'SEEN'] : request.requestedOutputs.toSorted(),
    inputs: request.inputs.map((input) => [input.name, input.shape]),
  }
  const first = request.inputs[0] as Tensor
  answerWanted(request, [
    bytesOf('SEEN', [1], [pythonJson(seen)]),
    new Tensor('ECHO', first.dataType, first.shape, first.bytes),
  ])
}

const tensors = (kind: string, prefix: string, types: readonly string[], dims: string, extra = ''): string =>
  types
    .map((type) => `${kind} { name: "${prefix}${type}" data_type: TYPE_${type} dims: [ ${dims} ] ${extra} }`)
    .join('\n')

// The order of Triton's recorded configurations, BF16 after the strings.
const echoConfig = (): string =>
  (tensors('input', 'IN_', dataTypes, '-1', 'optional: true') + tensors('output', 'OUT_', dataTypes, '-1')).replaceAll(
    'TYPE_BYTES',
    'TYPE_STRING',
  )
const addSubConfig = (type: string): string =>
  tensors('input', 'INPUT', ['0', '1'], '4').replaceAll(/TYPE_[01]/g, `TYPE_${type}`) +
  tensors('output', 'OUTPUT', ['0', '1'], '4').replaceAll(/TYPE_[01]/g, `TYPE_${type}`)
const classTypes = ['FP32', 'FP64', 'FP16', 'INT8', 'INT32', 'INT64', 'UINT8', 'UINT64', 'BOOL', 'STRING']
const classifyConfig =
  'input { name: "SCORES" data_type: TYPE_FP32 dims: [ 5 ] }\n' +
  classTypes
    .map((type) => {
      const labels = type === 'FP32' || type === 'INT32' ? 'label_filename: "labels.txt"' : ''
      return `output { name: "OUT_${type.replace('STRING', 'BYTES')}" data_type: TYPE_${type} dims: [ 5 ] ${labels} }`
    })
    .join('\n')
const codeConfig =
  'input { name: "CODE" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }'

type FixtureModel = { config: string; versions?: string[]; run?: ScriptedModel }

export const recordedModels = (): Record<string, FixtureModel> => ({
  echo: { config: echoConfig() },
  echo_batch: { config: `max_batch_size: 4 ${echoConfig()}` },
  add_sub: { config: `max_batch_size: 8 ${addSubConfig('FP32')}`, run: addSub },
  add_sub_plain: { config: addSubConfig('INT32'), run: addSub },
  inspect_request: {
    config: `input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }
      output { name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] } output { name: "ECHO" data_type: TYPE_INT32 dims: [ -1 ] }`,
    run: inspectRequest,
  },
  classify: { config: `max_batch_size: 4 ${classifyConfig}`, run: classify },
  classify_plain: { config: classifyConfig, run: classify },
  fail: { config: codeConfig, run: fail },
  repeat: { config: `${codeConfig} model_transaction_policy { decoupled: true }`, run: fail },
  versions_all: { config: `${codeConfig} version_policy { all { } }`, versions: ['1', '2', '10'], run: fail },
  versions_default: { config: codeConfig, versions: ['1', '2', '10'], run: fail },
  versions_latest2: {
    config: `${codeConfig} version_policy { latest { num_versions: 2 } }`,
    versions: ['1', '2', '10'],
    run: fail,
  },
  versions_specific: {
    config: `${codeConfig} version_policy { specific { versions: [ 1, 2 ] } }`,
    versions: ['1', '2', '10'],
    run: fail,
  },
})

const directory = join(dirname(fileURLToPath(import.meta.url)), '..', 'fixtures', 'http-models')

function polled(name: string, { config, versions = ['1'] }: FixtureModel): PolledModel {
  const text = `name: "${name}" ${config} instance_group { name: "${name}" kind: KIND_CPU count: 1 }`
  const isEnsemble = config.includes('ensemble_scheduling')
  const ofBackend = config.includes('backend:') ? text : `backend: "python" ${text}`
  const parsed = parseModelConfigText(isEnsemble ? `name: "${name}" ${config}` : ofBackend).config
  const policy = { latest: { numVersions: 1 }, all: null, specific: null }
  const whole = { ...emptyModelConfig(), ...parsed }
  whole.versionPolicy ??= policy
  return {
    name,
    error: null,
    config: whole,
    versions,
    hints: [],
    fingerprint: '',
    modelDirectory: join(directory, name),
    repositoryPath: directory,
  }
}

export type HttpFixture = {
  readonly frontend: HttpPort
  readonly engine: Engine
  readonly log: MemoryLog
  close(): Promise<void>
}

/** Serves `models` beside the recorded ones. `portClock` is the time of the HTTP port alone. The server calls itself what the recorded one did, and words its errors as the recorded one. */
export async function startHttpFixture(
  { hasTfserving = false, ...options }: Partial<HttpOptions> & { readonly hasTfserving?: boolean } = {},
  models: Record<string, FixtureModel> = {},
  portClock: Clock = clock,
  wordsErrorsLikeTriton = true,
): Promise<HttpFixture> {
  const all = { ...recordedModels(), ...models }
  const log = new MemoryLog()
  const scripts = Object.entries(all).flatMap(([name, { run }]) => (run === undefined ? [] : [[name, run] as const]))
  const runs = new Map(scripts)
  const scripted = new FakeBackend('python', clock)
  scripted.isHolding = false
  scripted.answer = (request) => (runs.get(request.modelName) ?? answerWithCopy)(request)
  const identity = new IdentityBackend({ clock, log })
  const shelf = Object.entries(all).map(([name, model]) => polled(name, model))
  const engine = new Engine(
    {
      clock,
      log,
      repository: {
        poll: () => Promise.resolve(shelf),
        pollOne: (name) => Promise.resolve(shelf.find((model) => model.name === name) ?? null),
        pollDirectory: (name) => Promise.reject(new Error(`the fixture has no folder for ${name}`)),
        names: () => Promise.resolve(shelf.map((model) => model.name)),
      },
      findBackend: (name) => Promise.resolve(name === 'identity' ? identity : name === 'python' ? scripted : null),
      closeBackends: () => Promise.resolve(),
    },
    { ...engineOptions, id: 'triton', reportedVersion: '2.51.0', wordsErrorsLikeTriton },
  )
  await engine.start()
  const failures = engine.failures.map(({ name, reason }) => `${name}: ${reason}`)
  if (failures.length > 0) throw new Error(`fixture models did not load: ${failures.join('; ')}`)
  const portOptions = { ...defaultOptions().http, port: 0, ...options }
  const tfserving = hasTfserving ? { tfserving: unmappedTfserving(engine) } : {}
  const frontend = createHttpPort({ engine, log, clock: portClock, ...tfserving }, portOptions)
  const close = async (): Promise<void> => {
    await frontend.close()
    await engine.close(0)
  }
  return { frontend, engine, log, close }
}

/** TensorFlow Serving's protocol on the models of an Engine, which no client can change. */
export const unmappedTfserving = (engine: Engine): TfservingFrontEnd =>
  tfservingFrontEnd(
    new ServingModels({
      engine,
      log: new MemoryLog(),
      folders: { models: new Map(), map: () => undefined, unmap: async () => undefined },
      entries: [],
      allowsReload: false,
    }),
  )
