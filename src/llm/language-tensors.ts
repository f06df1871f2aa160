// The inputs and outputs that every language model has, whichever backend runs it. The names are those of Triton's vLLM
// backend, so that clients of that backend work unchanged. The inputs and outputs that Triton has not are at the end.

import type { DataType } from '../tensor/data-type.ts'

type LanguageTensor = {
  readonly name: string
  readonly dataType: DataType
  readonly dims: readonly number[]
  /** Of an input: a request may leave it out. */
  readonly isOptional: boolean
}

const input = (name: string, dataType: DataType, isOptional = true): LanguageTensor => ({
  name,
  dataType,
  dims: [1],
  isOptional,
})

const output = (name: string, dataType: DataType, dims: readonly number[] = [-1]): LanguageTensor => ({
  name,
  dataType,
  dims,
  isOptional: false,
})

/** What a request asks for in its input `task`; without it the task is `generate`. */
export const languageTasks = ['generate', 'embed', 'rerank', 'tokenize', 'detokenize'] as const
export type LanguageTask = (typeof languageTasks)[number]

/**
 * Every input has one element. `text_input` of `rerank` is a JSON text `{"query": …, "documents": [ … ]}`, of `detokenize` a JSON
 * list of token ids, and of all other tasks the text itself.
 */
export const languageInputs: readonly LanguageTensor[] = [
  input('text_input', 'BYTES', false),
  input('stream', 'BOOL'),
  input('sampling_parameters', 'BYTES'),
  input('exclude_input_in_output', 'BOOL'),
  input('return_finish_reason', 'BOOL'),
  input('return_cumulative_logprob', 'BOOL'),
  input('return_logprobs', 'BOOL'),
  input('return_num_input_tokens', 'BOOL'),
  input('return_num_output_tokens', 'BOOL'),
  input('task', 'BYTES'),
]

/** An answer has those outputs that its task gives and that the request asked for. */
export const languageOutputs: readonly LanguageTensor[] = [
  output('text_output', 'BYTES'),
  output('finish_reason', 'BYTES'),
  output('cumulative_logprob', 'FP32'),
  output('logprobs', 'BYTES'),
  output('num_input_tokens', 'UINT32'),
  output('num_output_tokens', 'UINT32'),
  output('cached_tokens', 'UINT32'),
  output('embedding', 'FP32', [-1, -1]),
  output('tokens', 'INT32'),
  output('scores', 'FP32'),
]
