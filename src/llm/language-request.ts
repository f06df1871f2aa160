// What a request asks a language model for, read from its tensors and parameters.

import { ServerError } from '../base/server-error.ts'
import { splitBytesElements } from '../tensor/bytes-elements.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { languageTasks, type LanguageTask } from './language-tensors.ts'
import {
  isSamplingKey,
  parseSamplingParameters,
  readSamplingParameters,
  type SamplingParameters,
} from './sampling-parameters.ts'

export type LanguageRequest = {
  readonly task: LanguageTask
  readonly text: string
  readonly sampling: SamplingParameters
  readonly isStreamed: boolean
  /** The answer begins with the text of the request. */
  readonly isEchoed: boolean
  readonly wants: {
    readonly finishReason: boolean
    readonly cumulativeLogprob: boolean
    readonly logprobs: boolean
    readonly inputTokens: boolean
    readonly outputTokens: boolean
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

type ReadSource = {
  readonly inputs: readonly Tensor[]
  readonly parameters: ReadonlyMap<string, unknown>
}

/** Throws INVALID_ARG for what cannot be asked. */
export function readLanguageRequest({ inputs, parameters }: ReadSource): LanguageRequest {
  const find = (name: string): Tensor | undefined => inputs.find((tensor) => tensor.name === name)
  const flag = (name: string): boolean | null => {
    const tensor = find(name)
    return tensor === undefined ? null : tensor.bytes[0] !== 0
  }
  const text = (name: string): string | null => {
    const tensor = find(name)
    return tensor === undefined ? null : textOf(tensor)
  }
  const isStreamed = flag('stream') ?? false
  const excludesInput = flag('exclude_input_in_output') ?? isStreamed
  const task = taskOf(text('task') ?? '')
  if (isStreamed && !excludesInput && task === 'generate') {
    throw invalid('exclude_input_in_output must not be false where stream is true: a stream has no place for the input')
  }
  const sampling = samplingOf(text('sampling_parameters'), parameters)
  const wants = {
    finishReason: flag('return_finish_reason') ?? false,
    cumulativeLogprob: flag('return_cumulative_logprob') ?? false,
    logprobs: flag('return_logprobs') ?? false,
    inputTokens: flag('return_num_input_tokens') ?? false,
    outputTokens: flag('return_num_output_tokens') ?? false,
  }
  if ((wants.cumulativeLogprob || wants.logprobs) && sampling.logprobs === null) sampling.logprobs = 0
  return { task, text: text('text_input') ?? '', sampling, isStreamed, isEchoed: !excludesInput, wants }
}

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

function textOf({ name, bytes }: Tensor): string {
  const [element] = splitBytesElements(bytes, () => invalid(`input '${name}' is cut short`))
  try {
    return decoder.decode(element ?? new Uint8Array(0))
  } catch {
    throw invalid(`input '${name}' must be UTF-8 text`)
  }
}

function taskOf(name: string): LanguageTask {
  const task = name === '' ? 'generate' : languageTasks.find((known) => known === name)
  if (task !== undefined) return task
  throw invalid(`input 'task' must be one of ${languageTasks.join(', ')}, got '${name.slice(0, 60)}'`)
}

/** Where there is no input of that name, parameters of the request are looked at, as Triton's vLLM backend does. */
function samplingOf(text: string | null, parameters: ReadonlyMap<string, unknown>): SamplingParameters {
  if (text !== null) return parseSamplingParameters(text)
  return readSamplingParameters(
    [...parameters].filter(([key]) => isSamplingKey(key)).map(([key, value]) => [key, plain(value)]),
  )
}

const plain = (value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value)
