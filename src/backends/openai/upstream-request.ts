// A request to a language model → the call of another OpenAI server.

import { ServerError } from '../../base/server-error.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { stringsOf } from '../../tensor/typed-values.ts'

export type UpstreamKind = 'chat' | 'completion' | 'embed' | 'rerank' | 'tokenize' | 'detokenize'

export type UpstreamCall = {
  readonly kind: UpstreamKind
  /** Behind the URL of the upstream. */
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly isStream: boolean
}

/** A chat as the OpenAI front end gives it to models that make prompts themselves. */
type ChatRequest = {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly unknown[]
  readonly toolChoice?: unknown
  readonly callsOnce?: boolean
}
type ChatMessage = Readonly<Record<string, unknown>> & {
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: unknown } }[]
}

const paths: Readonly<Record<UpstreamKind, string>> = {
  chat: '/chat/completions',
  completion: '/completions',
  embed: '/embeddings',
  rerank: '/rerank',
  tokenize: '/../tokenize',
  detokenize: '/../detokenize',
}

/** Throws INVALID_ARG. `limitName` is the upstream's name for the most tokens of a chat. */
export function upstreamCall(request: InferenceRequest, model: string, limitName: string): UpstreamCall {
  const inputs = new Map(request.inputs.map((tensor) => [tensor.name, tensor]))
  const text = textOf(inputs.get('text_input')) ?? ''
  const task = textOf(inputs.get('task')) ?? 'generate'
  const sampling = parsed(textOf(inputs.get('sampling_parameters')) ?? '{}', 'sampling_parameters')
  if (task === 'generate') {
    const isStream = inputs.get('stream')?.bytes[0] === 1
    const chat = textOf(inputs.get('chat_request'))
    const hasLogprobs = inputs.get('return_logprobs')?.bytes[0] === 1
    const shared = { model, ...(isStream ? { stream: true, stream_options: { include_usage: true } } : {}) }
    if (chat === null) {
      return call('completion', { ...shared, prompt: text, ...completionSampling(sampling, hasLogprobs) }, isStream)
    }
    const members = chatMembers(parsed(chat, 'chat_request') as unknown as ChatRequest)
    return call('chat', { ...shared, ...members, ...chatSampling(sampling, hasLogprobs, limitName) }, isStream)
  }
  if (task === 'embed') return call('embed', { model, input: inputsOf(text), encoding_format: 'float' })
  if (task === 'rerank') return call('rerank', { model, ...parsed(text, 'text_input') })
  if (task === 'tokenize') return call('tokenize', { model, prompt: text, content: text, ...sampling })
  if (task === 'detokenize') return call('detokenize', { model, tokens: parsed(text, 'text_input') })
  throw ServerError.withoutStack(
    'INVALID_ARG',
    `input 'task' must name a task of language models, got '${task.slice(0, 60)}'`,
  )
}

const call = (kind: UpstreamKind, body: UpstreamCall['body'], isStream = false): UpstreamCall => ({
  kind,
  path: paths[kind],
  body,
  isStream,
})

const textOf = (tensor: Tensor | undefined): string | null =>
  tensor === undefined ? null : (stringsOf(tensor)[0] ?? '')

function parsed(text: string, input: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    throw ServerError.withoutStack('INVALID_ARG', `input '${input}' must be JSON`)
  }
}

/** A text, or `{"input": […]}`. */
function inputsOf(text: string): unknown {
  if (!text.startsWith('{"input"')) return [text]
  return parsed(text, 'text_input')['input'] ?? [text]
}

function chatMembers({ messages, tools = [], toolChoice, callsOnce = false }: ChatRequest): Record<string, unknown> {
  const told = messages.map((message) =>
    message.tool_calls === undefined ? message : { ...message, tool_calls: message.tool_calls.map(withTextArguments) },
  )
  if (tools.length === 0) return { messages: told }
  const isNamed = typeof toolChoice === 'object' && toolChoice !== null
  const choice = isNamed ? { type: 'function', function: toolChoice } : toolChoice
  return {
    messages: told,
    tools,
    ...(choice === undefined ? {} : { tool_choice: choice }),
    ...(callsOnce ? { parallel_tool_calls: false } : {}),
  }
}

/** On the wire arguments are a text. */
function withTextArguments<T extends { readonly function: { readonly name: string; readonly arguments: unknown } }>(
  made: T,
): T {
  const { arguments: given } = made.function
  return {
    ...made,
    function: { ...made.function, arguments: typeof given === 'string' ? given : JSON.stringify(given) },
  }
}

/** vLLM's names are OpenAI's, but for the form of the answer. What OpenAI does not have goes through as it is. */
function formOf({ json_schema: schema, ...others }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  if (schema === undefined) return others
  return { ...others, response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } } }
}

function completionSampling(
  sampling: Readonly<Record<string, unknown>>,
  hasLogprobs: boolean,
): Record<string, unknown> {
  const { logprobs = 0, ...others } = sampling
  return { ...formOf(others), ...(hasLogprobs ? { logprobs } : {}) }
}

function chatSampling(
  sampling: Readonly<Record<string, unknown>>,
  hasLogprobs: boolean,
  limitName: string,
): Record<string, unknown> {
  const { logprobs = 0, max_tokens: maxTokens, ...others } = sampling
  return {
    ...formOf(others),
    ...(maxTokens === undefined ? {} : { [limitName]: maxTokens }),
    ...(hasLogprobs ? { logprobs: true, top_logprobs: logprobs } : {}),
  }
}
