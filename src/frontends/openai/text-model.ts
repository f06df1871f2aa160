// How a model takes and gives text. Most have the tensors of Triton's vLLM backend; TensorRT-LLM's have inputs for single
// settings; any other model with one text in and one text out can be asked too, for what it can do.

import type { InputSpec, ModelSignature } from '../../config/model-signature.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { usualCompletionTokens } from '../../protocol/openai/generation-request.ts'
import { unsupported } from '../../protocol/openai/openai-problem.ts'
import { refuseSampling, type SamplingParameters } from '../../protocol/openai/sampling-parameters.ts'
import type { TokenLogprob } from '../../protocol/openai/generation-answer.ts'
import { encodeBytesElements } from '../../tensor/bytes-elements.ts'
import { elementArray, type FixedSizeType } from '../../tensor/data-type.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { bytesElementsOf, numbersOf, stringsOf, type TypedValues } from '../../tensor/typed-values.ts'
import { excludeInputs, guideTypeInput, isFilled, returnFlags, settingInputs, streamInputs } from './setting-inputs.ts'

export type LanguageTask = 'generate' | 'embed' | 'rerank' | 'tokenize' | 'detokenize'

/** One inference that asks for text. */
export type TextJob = {
  readonly task: LanguageTask
  readonly text: string
  readonly isStream: boolean
  readonly sampling: SamplingParameters
  readonly maxTokens: number | null
  /** For a request that does not say how many, where the model can be told; null: as many as the model likes. */
  readonly usualMaxTokens: number | null
  /** Null: none are asked for. */
  readonly logprobs: number | null
}

const outputNames = ['finish_reason', 'num_input_tokens', 'num_output_tokens', 'cached_tokens'] as const
const taskOutputs: Readonly<Record<LanguageTask, string>> = {
  generate: 'text_output',
  embed: 'embedding',
  rerank: 'scores',
  tokenize: 'tokens',
  detokenize: 'text_output',
}

const known = new WeakMap<ModelSignature, TextModel>()

/** Throws UNSUPPORTED for a model that takes or gives no text. */
export function textModelOf(signature: ModelSignature): TextModel {
  let model = known.get(signature)
  if (model === undefined) known.set(signature, (model = new TextModel(signature)))
  return model
}

/** Whether a model can be asked for text at all, for the list of models. */
export function takesText(signature: ModelSignature): boolean {
  return textInputOf(signature) !== null
}

export class TextModel {
  readonly #signature: ModelSignature
  readonly #textInput: InputSpec
  readonly #textOutput: string
  /** Settings that the model takes one by one, with the input of each. */
  readonly #single: ReadonlyMap<string, InputSpec>

  constructor(signature: ModelSignature) {
    this.#signature = signature
    const input = textInputOf(signature)
    if (input === null) throw notText(signature)
    this.#textInput = input
    const outputs = signature.outputs.filter(({ dataType }) => dataType === 'BYTES')
    this.#textOutput = (outputs.find(({ name }) => name === 'text_output') ?? outputs[0])?.name ?? ''
    this.#single = settingInputs(signature)
  }

  /** Whether the model makes prompts of chats itself. */
  get takesChat(): boolean {
    return this.#signature.inputByName.has('chat_request')
  }

  /** Whether the model tells content, reasoning and calls of tools apart itself. */
  get tellsApart(): boolean {
    return this.#signature.outputByName.has('chat_delta')
  }

  get takesSampling(): boolean {
    return this.#signature.inputByName.has('sampling_parameters')
  }

  /** Throws UNSUPPORTED for what the model cannot do. */
  inputs(job: TextJob, chatRequest: unknown = null): Tensor[] {
    const tensors = [this.#text(this.#textInput, job.text)]
    const add = (name: string, tensor: (spec: InputSpec) => Tensor): boolean => {
      const spec = this.#signature.inputByName.get(name)
      if (spec === undefined) return false
      tensors.push(tensor(spec))
      return true
    }
    if (job.task !== 'generate' && !add('task', (spec) => this.#text(spec, job.task))) throw this.#cannot(job.task)
    if (!this.#gives(job.task)) throw this.#cannot(job.task)
    if (chatRequest !== null) add('chat_request', (spec) => this.#text(spec, JSON.stringify(chatRequest)))
    if (job.task !== 'generate') {
      add('return_num_input_tokens', (spec) => this.#number(spec, 1))
      const settings = JSON.stringify(job.sampling)
      if (settings !== '{}') add('sampling_parameters', (spec) => this.#text(spec, settings))
      return tensors
    }
    for (const name of streamInputs) add(name, (spec) => this.#number(spec, job.isStream ? 1 : 0))
    for (const name of excludeInputs) add(name, (spec) => this.#number(spec, 1))
    for (const name of returnFlags) add(name, (spec) => this.#number(spec, 1))
    if (job.logprobs !== null) {
      const isAsked =
        this.#signature.outputByName.has('logprobs') && add('return_logprobs', (spec) => this.#number(spec, 1))
      if (!isAsked) throw this.#cannotSay('logprobs')
    } else if (this.#signature.inputByName.get('return_logprobs')?.isOptional === false) {
      add('return_logprobs', (spec) => this.#number(spec, 0))
    }
    this.#addSampling(job, tensors, add)
    return tensors
  }

  #addSampling(
    job: TextJob,
    tensors: Tensor[],
    add: (name: string, tensor: (spec: InputSpec) => Tensor) => boolean,
  ): void {
    const isTold = this.takesSampling || this.#single.has('max_tokens')
    const mustKnow = this.#single.get('max_tokens')?.isOptional === false
    const maxTokens = job.maxTokens ?? (isTold ? job.usualMaxTokens : null) ?? (mustKnow ? usualCompletionTokens : null)
    const sampling: SamplingParameters = { ...job.sampling, ...(maxTokens === null ? {} : { max_tokens: maxTokens }) }
    if (this.takesSampling) {
      // vLLM's name for the number of alternatives; 0 is the token itself.
      const all = job.logprobs === null ? sampling : { ...sampling, logprobs: job.logprobs }
      add('sampling_parameters', (spec) => this.#text(spec, JSON.stringify(all)))
      return
    }
    refuseSampling(sampling, this.#single, this.#signature.modelName)
    for (const [setting, spec] of this.#single) {
      const value = sampling[setting]
      if (Array.isArray(value)) tensors.push(this.#texts(spec, value as string[]))
      else if (typeof value === 'number') tensors.push(this.#number(spec, value))
      else if (typeof value === 'object' && value !== null) {
        add(guideTypeInput, (type) => this.#text(type, setting))
        tensors.push(this.#text(spec, JSON.stringify(value)))
      }
    }
  }

  /** Outputs that the answer needs; empty: all that there are. */
  outputs(job: TextJob): string[] {
    if (job.task !== 'generate') {
      const counts = this.#signature.outputByName.has('num_input_tokens') ? ['num_input_tokens'] : []
      return [taskOutputs[job.task], ...counts]
    }
    const wanted = [
      this.#textOutput,
      ...outputNames,
      ...(job.logprobs === null ? [] : ['logprobs']),
      'chat_delta',
      'answered_by',
    ]
    return wanted.filter((name) => this.#signature.outputByName.has(name))
  }

  #gives(task: LanguageTask): boolean {
    if (task === 'generate') return this.#textOutput !== ''
    return this.#signature.outputByName.has(taskOutputs[task])
  }

  #cannot(task: LanguageTask): Error {
    const { modelName } = this.#signature
    return unsupported(
      `model '${modelName}' cannot do '${task}': it has no output '${taskOutputs[task]}' for it`,
      'model',
    )
  }

  #cannotSay(name: string): Error {
    return unsupported(`model '${this.#signature.modelName}' cannot do '${name}': it has no output of that name`, name)
  }

  /** The fields of an answer. The response may be released afterwards. */
  read(response: InferenceResponse): TextAnswer {
    const answer: TextAnswer = { ...noAnswer, texts: [], logprobs: [] }
    for (const tensor of response.outputs) {
      if (tensor.name === this.#textOutput) answer.texts = bytesElementsOf(tensor).map((bytes) => new Uint8Array(bytes))
      else readers[tensor.name]?.(answer, tensor)
    }
    return answer
  }

  #shape({ dims }: InputSpec, count: number): number[] {
    const open = dims.lastIndexOf(-1)
    const own = dims.map((size, index) => (size >= 0 ? size : index === open ? count : 1))
    return this.#signature.isBatching ? [1, ...own] : own
  }

  #text(spec: InputSpec, text: string): Tensor {
    return this.#texts(spec, [text])
  }

  #texts(spec: InputSpec, texts: readonly string[]): Tensor {
    return new Tensor(spec.name, 'BYTES', this.#shape(spec, texts.length), encodeBytesElements(texts))
  }

  #number(spec: InputSpec, value: number): Tensor {
    const make = elementArray[spec.dataType as FixedSizeType] as unknown as {
      of(value: number | bigint): ArrayBufferView
    }
    const is64 = spec.dataType === 'INT64' || spec.dataType === 'UINT64'
    const { buffer } = make.of(is64 ? BigInt(Math.trunc(value)) : value)
    return new Tensor(spec.name, spec.dataType, this.#shape(spec, 1), new Uint8Array(buffer))
  }
}

/** What one answer of a model says. */
export type TextAnswer = {
  texts: Uint8Array[]
  /** '' while the model goes on. */
  finishReason: string
  logprobs: TokenLogprob[]
  /** -1: the answer does not say. */
  inputTokens: number
  outputTokens: number
  cachedTokens: number
  /** A delta of OpenAI's, from a model that makes prompts of chats itself; '' for none. */
  chatDelta: string
  /** The model behind a router; '' where there is no router. */
  answeredBy: string
  embedding: { readonly values: Float32Array; readonly width: number } | null
  tokens: TypedValues | null
  scores: readonly number[] | null
}

const noAnswer: TextAnswer = {
  texts: [],
  finishReason: '',
  logprobs: [],
  inputTokens: -1,
  outputTokens: -1,
  cachedTokens: -1,
  chatDelta: '',
  answeredBy: '',
  embedding: null,
  tokens: null,
  scores: null,
}

/** A copy, without the numbers that JSON does not know. */
const plainNumbers = (values: TypedValues): TypedValues =>
  values instanceof BigInt64Array || values instanceof BigUint64Array ? Float64Array.from(values, Number) : values.slice() // prettier-ignore

const firstNumber = (tensor: Tensor): number => Number(numbersOf(tensor)[0] ?? -1)

const readers: Readonly<Record<string, (answer: TextAnswer, tensor: Tensor) => void>> = {
  finish_reason: (answer, tensor) => (answer.finishReason = stringsOf(tensor)[0] ?? ''),
  num_input_tokens: (answer, tensor) => (answer.inputTokens = firstNumber(tensor)),
  num_output_tokens: (answer, tensor) => (answer.outputTokens = firstNumber(tensor)),
  cached_tokens: (answer, tensor) => (answer.cachedTokens = firstNumber(tensor)),
  chat_delta: (answer, tensor) => (answer.chatDelta = stringsOf(tensor)[0] ?? ''),
  answered_by: (answer, tensor) => (answer.answeredBy = stringsOf(tensor)[0] ?? ''),
  logprobs: (answer, tensor) => (answer.logprobs = stringsOf(tensor).flatMap(readLogprobs)),
  embedding: (answer, tensor) => {
    answer.embedding = { values: Float32Array.from(numbersOf(tensor) as Float32Array), width: tensor.shape.at(-1) ?? 0 }
  },
  tokens: (answer, tensor) => (answer.tokens = plainNumbers(numbersOf(tensor))),
  scores: (answer, tensor) => (answer.scores = Array.from(numbersOf(tensor) as Float32Array, Number)),
}

type LogprobOfModel = {
  readonly token?: string
  readonly decoded_token?: string
  readonly logprob?: number
  readonly bytes?: readonly number[] | null
  readonly top?: readonly LogprobOfModel[]
}

function readLogprobs(json: string): TokenLogprob[] {
  if (json === '' || json === 'null') return []
  // The order of members counts, and JavaScript would put those with the smaller number first.
  const ordered = json.replaceAll(/"(\d+)":(?= ?\{)/g, '"id $1":')
  const parsed = JSON.parse(ordered) as LogprobOfModel | readonly LogprobOfModel[]
  return (Array.isArray(parsed) ? (parsed as readonly LogprobOfModel[]) : [parsed as LogprobOfModel]).map(tokenLogprob)
}

function tokenLogprob(given: LogprobOfModel): TokenLogprob {
  // Triton's vLLM backend gives an object from token ids to their probabilities, the token itself first.
  const alternatives = given.logprob === undefined ? (Object.values(given) as LogprobOfModel[]) : null
  if (alternatives !== null && alternatives.length > 0) {
    const [own = {}] = alternatives
    return {
      ...tokenLogprob({ ...own, logprob: own.logprob ?? 0 }),
      top: alternatives
        .map((each) => tokenLogprob({ ...each, logprob: each.logprob ?? 0 }))
        .sort((a, b) => b.logprob - a.logprob),
    }
  }
  const token = given.token ?? given.decoded_token ?? ''
  const logprob = given.logprob ?? 0
  return {
    token,
    // JSON has no minus infinity. OpenAI says -9999 for what cannot come.
    logprob: Number.isFinite(logprob) ? logprob : -9999,
    bytes: given.bytes ?? [...Buffer.from(token)],
    top: (given.top ?? []).map(tokenLogprob),
  }
}

/** The one text that a model needs: an input of a usual name, or the only one of type BYTES that must be given. */
function textInputOf({ inputs, inputByName }: ModelSignature): InputSpec | null {
  for (const name of ['text_input', 'prompt', 'PROMPT', 'INPUT_TEXT', 'query']) {
    const input = inputByName.get(name)
    if (input?.dataType === 'BYTES') return othersOptional(inputs, input) ? input : null
  }
  const required = inputs.filter(({ dataType, isOptional }) => dataType === 'BYTES' && !isOptional)
  const [only] = required
  return only !== undefined && required.length === 1 && othersOptional(inputs, only) ? only : null
}

const othersOptional = (inputs: readonly InputSpec[], one: InputSpec): boolean =>
  inputs.every((input) => input === one || isFilled(input))

function notText({ modelName, inputs }: ModelSignature): Error {
  const given = inputs.map(({ name, dataType }) => `'${name}' ${dataType}`).join(', ')
  return unsupported(
    `model '${modelName}' takes no text: its inputs are ${given}. The OpenAI API needs one input of type BYTES; ` +
      `POST /v2/models/${modelName}/infer takes tensors.`,
    'model',
  )
}
