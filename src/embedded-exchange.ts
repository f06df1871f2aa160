// An inference that comes from the embedding program itself: values in, values out, no bytes in between.

import { anonymous } from './access/caller.ts'
import { ServerError } from './base/server-error.ts'
import { InferenceExchange, type ArrivalNames, type ExchangeParts } from './exchange/inference-exchange.ts'
import type { RequestHead } from './model/request-origin.ts'
import type { InferenceResponse } from './model/inference-response.ts'
import type { ModelVersion } from './model/model-version.ts'
import type { Parameters, ParameterValue } from './model/parameters.ts'
import type { DataType } from './tensor/data-type.ts'
import type { Shape } from './tensor/shape.ts'
import type { Tensor } from './tensor/tensor.ts'
import { numbersOf, stringsOf, tensorOfNumbers, tensorOfStrings, type TypedValues } from './tensor/typed-values.ts'

/**
 * Values of one input: a typed array of the input's type, or strings and bytes for BYTES. Without a shape, that of the
 * configuration is taken.
 */
export type InputValues =
  | TypedValues
  | readonly (string | Uint8Array)[]
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

/** Where the answers of an inference go. */
export type EmbeddedAnswers = {
  answered(result: InferResult): void
  /** The last thing that comes, unless `ended` does. */
  failed(error: ServerError): void
  /** After the last answer. */
  ended(): void
}

const arrivalNames: ArrivalNames = ['CALL_START', 'CALL_END']

export class EmbeddedExchange extends InferenceExchange {
  readonly #inputs: Readonly<Record<string, InputValues>>
  readonly #options: InferOptions
  readonly #answers: EmbeddedAnswers
  readonly #parameters: Parameters
  #hasFailed = false

  constructor(
    parts: ExchangeParts,
    inputs: Readonly<Record<string, InputValues>>,
    options: InferOptions,
    answersOnce: boolean,
    answers: EmbeddedAnswers,
  ) {
    super(parts, anonymous, answersOnce)
    this.#inputs = inputs
    this.#options = options
    this.#answers = answers
    this.#parameters = new Map(Object.entries(options.parameters ?? {}))
  }

  get protocol(): 'embedded' {
    return 'embedded'
  }
  get path(): string {
    return ''
  }
  get peer(): string {
    return ''
  }
  header(): null {
    return null
  }
  override head(): RequestHead {
    return { id: this.#options.id ?? '', parameters: this.#parameters, correlationId: 0n, isSequenceStart: false }
  }

  /** Begins the inference. The signal of the options cancels it. */
  send(model: string): void {
    const { version = '', signal } = this.#options
    signal?.addEventListener('abort', () => this.cancel(), { once: true })
    this.begin(model, version)
    if (signal?.aborted) this.cancel()
  }

  protected get arrivalNames(): ArrivalNames {
    return arrivalNames
  }

  protected override read(version: ModelVersion): void {
    const { id, timeoutUs, outputs = [] } = this.#options
    this.submit({
      id,
      timeoutUs,
      parameters: this.#parameters,
      inputs: Object.entries(this.#inputs).map(([name, values]) => inputTensor(version, name, values)),
      outputs: outputs.map((name) => ({ name, sharedMemory: null })),
    })
  }

  protected override write(response: InferenceResponse): void {
    if (!response.isFlagOnly) this.#answers.answered(takeResult(response))
  }

  protected override fail(error: ServerError): void {
    this.#hasFailed = true
    this.#answers.failed(error)
  }

  protected override refused(error: ServerError): void {
    this.fail(error)
  }

  protected override ended(): void {
    if (!this.#hasFailed) this.#answers.ended()
  }
}

function inputTensor(version: ModelVersion, name: string, values: InputValues): Tensor {
  const spec = version.signature.inputByName.get(name)
  if (spec === undefined) {
    throw new ServerError('INVALID_ARG', `unexpected inference input '${name}' for model '${version.name}'`)
  }
  const hasShape = !Array.isArray(values) && !ArrayBuffer.isView(values) && 'shape' in values
  const data = hasShape ? values.data : (values as TypedValues | readonly (string | Uint8Array)[])
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
