// Galatea without a network: loads a repository and infers in the caller's own process, no port open.

import { openOrClose } from './base/closing-stack.ts'
import { SystemClock, type Clock } from './base/clock.ts'
import { silentLog, type Log } from './base/log.ts'
import { ServerError } from './base/server-error.ts'
import type { Engine } from './engine/engine.ts'
import type { IndexEntry } from './engine/serving/index-entry.ts'
import { InferenceRequest } from './model/inference-request.ts'
import type { ParameterValue } from './model/parameters.ts'
import type { InferenceResponse } from './model/inference-response.ts'
import type { ModelMetadata } from './config/model-metadata.ts'
import type { ModelVersion } from './model/model-version.ts'
import { defaultOptions } from './options/options-from-flags.ts'
import type { EngineSettings } from './options/server-options.ts'
import { buildEngine } from './build-engine.ts'
import type { DataType } from './tensor/data-type.ts'
import type { Shape } from './tensor/shape.ts'
import type { Tensor } from './tensor/tensor.ts'
import { numbersOf, stringsOf, tensorOfNumbers, tensorOfStrings, type TypedValues } from './tensor/typed-values.ts'

export type EmbeddedEngineOptions = Partial<Omit<EngineSettings, 'modelRepositories'>> & {
  readonly modelRepository: string | readonly string[]
  readonly clock?: Clock
  readonly log?: Log
}

/** Values of one input: a typed array of the input's type, or strings. Without a shape, that of the configuration is taken. */
export type InputValues =
  | TypedValues
  | readonly string[]
  | { readonly shape: Shape; readonly data: TypedValues | readonly (string | Uint8Array)[] }

export type OutputValues = {
  readonly dataType: DataType
  readonly shape: Shape
  /** FP16 and BF16 come as their bits. */
  readonly data: TypedValues | string[]
}

export type InferOptions = {
  readonly version?: string
  readonly id?: string
  /** Only these; all of them when left out. */
  readonly outputs?: readonly string[]
  readonly parameters?: Readonly<Record<string, ParameterValue>>
  readonly timeoutUs?: bigint
  readonly signal?: AbortSignal
}

export type InferResult = {
  readonly outputs: Readonly<Record<string, OutputValues>>
  readonly parameters: Readonly<Record<string, ParameterValue>>
}

export interface EmbeddedEngine {
  /** One answer. Of a decoupled model that sends several, use `inferStream`. */
  infer(model: string, inputs: Readonly<Record<string, InputValues>>, options?: InferOptions): Promise<InferResult>
  /** Every answer as it comes. Leaving the loop early cancels the request. */
  inferStream(
    model: string,
    inputs: Readonly<Record<string, InputValues>>,
    options?: InferOptions,
  ): AsyncIterableIterator<InferResult>
  isModelReady(model: string, version?: string): boolean
  metadata(model: string, version?: string): ModelMetadata
  index(): readonly IndexEntry[]
  load(model: string): Promise<void>
  unload(model: string): Promise<void>
  close(): Promise<void>
  /** The Engine itself, for those who want tensors without conversions. */
  readonly engine: Engine
}

/** Loads every model of the repository; one that cannot load is UNAVAILABLE in `index()` and hurts no other. */
export async function createEngine(options: EmbeddedEngineOptions): Promise<EmbeddedEngine> {
  const { modelRepository, clock = new SystemClock(), log = silentLog, ...rest } = options
  const modelRepositories = typeof modelRepository === 'string' ? [modelRepository] : modelRepository
  const settings = { ...defaultOptions().engine, ...rest, modelRepositories }
  const engine = await openOrClose(async (closing) => {
    const built = await buildEngine({ clock, log }, settings, closing)
    await closing.add(built.engine, (opened) => opened.close(0)).start()
    return built.engine
  })

  const send = (
    model: string,
    inputs: Readonly<Record<string, InputValues>>,
    inferOptions: InferOptions,
    sink: (response: InferenceResponse) => void,
  ): InferenceRequest => {
    const version = engine.findVersion(model, inferOptions.version ?? '')
    const request = new InferenceRequest({
      modelName: model,
      modelVersion: inferOptions.version ?? '',
      id: inferOptions.id ?? '',
      inputs: Object.entries(inputs).map(([name, values]) => inputTensor(version, name, values)),
      requestedOutputs: inferOptions.outputs ?? [],
      parameters: new Map(Object.entries(inferOptions.parameters ?? {})),
      timeoutUs: inferOptions.timeoutUs ?? 0n,
      sink,
    })
    const { signal } = inferOptions
    signal?.addEventListener('abort', () => request.cancel(), { once: true })
    engine.infer(request, version)
    if (signal?.aborted) request.cancel()
    return request
  }

  return {
    engine,
    infer: (model, inputs, inferOptions = {}) =>
      new Promise((resolve, reject) => {
        let result: InferResult | null = null
        let count = 0
        send(model, inputs, inferOptions, (response) => {
          if (!response.isFlagOnly && response.error === null) {
            count++
            result = takeResult(response)
          }
          if (response.error !== null) reject(response.error)
          else if (response.isFinal) {
            if (result !== null && count === 1) resolve(result)
            else reject(new ServerError('INTERNAL', `expected a single response, got ${count}`))
          }
        })
      }),
    inferStream: async function* (model, inputs, inferOptions = {}) {
      const arrived: InferenceResponse[] = []
      let wake = (): void => undefined
      const request = send(model, inputs, inferOptions, (response) => {
        arrived.push(response)
        wake()
      })
      try {
        for (;;) {
          const response = arrived.shift()
          if (response === undefined) {
            await new Promise<void>((resolve) => (wake = resolve))
            continue
          }
          if (response.error !== null) throw response.error
          if (!response.isFlagOnly) yield takeResult(response)
          if (response.isFinal) return
        }
      } finally {
        request.cancel()
        for (const response of arrived) response.release()
      }
    },
    isModelReady: (model, version = '') => engine.isModelReady(model, version),
    metadata: (model, version = '') => engine.modelMetadata(model, version),
    index: () => engine.index(),
    load: (model) => engine.load(model),
    unload: async (model) => (await engine.unload(model)).gone,
    close: async () => {
      await engine.close()
    },
  }
}

function inputTensor(version: ModelVersion, name: string, values: InputValues): Tensor {
  const spec = version.signature.inputByName.get(name)
  if (spec === undefined) {
    throw new ServerError('INVALID_ARG', `unexpected inference input '${name}' for model '${version.name}'`)
  }
  const hasShape = !Array.isArray(values) && !ArrayBuffer.isView(values) && 'shape' in values
  const data = hasShape ? values.data : (values as TypedValues | readonly string[])
  const shape = hasShape ? values.shape : impliedShape(version, spec.dims, data.length)
  return Array.isArray(data)
    ? tensorOfStrings(name, shape, data)
    : tensorOfNumbers(name, spec.dataType, shape, data as TypedValues)
}

/** The configuration's dims, with the batch dimension or one open dimension sized by the number of values. */
function impliedShape(version: ModelVersion, dims: Shape, valueCount: number): Shape {
  const shape = version.signature.isBatching ? [-1, ...dims] : [...dims]
  const open = shape.filter((size) => size === -1).length
  if (open === 0) return shape
  const fixed = shape.reduce((product, size) => (size === -1 ? product : product * size), 1)
  // Of several open dimensions the first takes what the others, at size 1, leave.
  let isTaken = false
  return shape.map((size) => {
    if (size !== -1) return size
    if (isTaken) return 1
    isTaken = true
    return Math.floor(valueCount / fixed)
  })
}

/** Copies the outputs out, because their memory goes back with the response. */
function takeResult(response: InferenceResponse): InferResult {
  const outputs: Record<string, OutputValues> = {}
  for (const tensor of response.outputs) {
    const data = tensor.dataType === 'BYTES' ? stringsOf(tensor) : numbersOf(tensor).slice()
    outputs[tensor.name] = { dataType: tensor.dataType, shape: tensor.shape, data }
  }
  response.release()
  return { outputs, parameters: Object.fromEntries(response.parameters ?? []) }
}
