// What another OpenAI server answers → the outputs of a language model.

import { ServerError } from '../../base/server-error.ts'
import { encodeBytesElements } from '../../tensor/bytes-elements.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { UpstreamKind } from './upstream-request.ts'

type Json = Readonly<Record<string, unknown>>

const objectOf = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {})
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const text = (name: string, value: string): Tensor => new Tensor(name, 'BYTES', [1], encodeBytesElements([value]))
const count = (name: string, value: unknown): Tensor[] =>
  typeof value === 'number' && value >= 0
    ? [new Tensor(name, 'UINT32', [1], new Uint8Array(Uint32Array.of(value).buffer))]
    : []

/** The outputs of one chunk, or of the whole answer. An answer without choices has the counts alone. */
export function upstreamOutputs(kind: UpstreamKind, answer: unknown): Tensor[] {
  const json = objectOf(answer)
  if (kind === 'chat' || kind === 'completion') return [...choiceOutputs(kind, json), ...usageOutputs(json)]
  if (kind === 'embed') return [...embeddingOutputs(json), ...usageOutputs(json)]
  if (kind === 'rerank') return [scoreOutput(json), ...usageOutputs(json)]
  if (kind === 'tokenize') {
    const tokens = Int32Array.from(listOf(json['tokens']) as number[])
    return [new Tensor('tokens', 'INT32', [tokens.length], new Uint8Array(tokens.buffer))]
  }
  return [text('text_output', (json['prompt'] ?? json['content'] ?? '') as string)]
}

function choiceOutputs(kind: 'chat' | 'completion', json: Json): Tensor[] {
  const [first] = listOf(json['choices'])
  if (first === undefined) return []
  const choice = objectOf(first)
  const message = objectOf(choice['delta'] ?? choice['message'])
  const said = kind === 'chat' ? message['content'] : choice['text']
  const outputs = [text('text_output', typeof said === 'string' ? said : '')]
  const reason = choice['finish_reason']
  if (typeof reason === 'string') outputs.push(text('finish_reason', reason === 'length' ? 'length' : 'stop'))
  const logprobs = logprobsOf(kind, objectOf(choice['logprobs']))
  if (logprobs.length > 0) outputs.push(text('logprobs', JSON.stringify(logprobs)))
  const calls = listOf(message['tool_calls']).map((call, index) => ({ index, ...objectOf(call) }))
  const reasoning = message['reasoning_content'] ?? message['reasoning']
  if (calls.length > 0 || (typeof reasoning === 'string' && reasoning !== '')) {
    outputs.push(text('chat_delta', JSON.stringify({ reasoning_content: reasoning, tool_calls: calls })))
  }
  return outputs
}

function logprobsOf(kind: 'chat' | 'completion', logprobs: Json): object[] {
  if (kind === 'chat') {
    return listOf(logprobs['content']).map((each) => {
      const { top_logprobs: top, ...token } = objectOf(each)
      return { ...token, top: listOf(top) }
    })
  }
  const values = listOf(logprobs['token_logprobs'])
  const tops = listOf(logprobs['top_logprobs'])
  return listOf(logprobs['tokens']).map((token, index) => ({
    token,
    logprob: values[index] ?? 0,
    top: Object.entries(objectOf(tops[index])).map(([other, logprob]) => ({ token: other, logprob })),
  }))
}

function usageOutputs(json: Json): Tensor[] {
  const usage = objectOf(json['usage'])
  const details = objectOf(usage['prompt_tokens_details'])
  return [
    ...count('num_input_tokens', usage['prompt_tokens'] ?? usage['total_tokens']),
    ...count('num_output_tokens', usage['completion_tokens']),
    ...count('cached_tokens', details['cached_tokens']),
  ]
}

function embeddingOutputs(json: Json): Tensor[] {
  const vectors = listOf(json['data']).map((each) => Float32Array.from(listOf(objectOf(each)['embedding']) as number[]))
  const width = vectors[0]?.length ?? 0
  if (width === 0 || vectors.some((vector) => vector.length !== width)) throw malformed('embeddings')
  const values = new Float32Array(vectors.length * width)
  vectors.forEach((vector, index) => values.set(vector, index * width))
  return [new Tensor('embedding', 'FP32', [vectors.length, width], new Uint8Array(values.buffer))]
}

function scoreOutput(json: Json): Tensor {
  const results = listOf(json['results']).map(objectOf)
  const scores = new Float32Array(results.length)
  for (const { index, relevance_score: score } of results) {
    if (typeof index !== 'number' || typeof score !== 'number' || !(index in scores)) throw malformed('scores')
    scores[index] = score
  }
  return new Tensor('scores', 'FP32', [scores.length], new Uint8Array(scores.buffer))
}

export const malformed = (what: string): ServerError =>
  ServerError.withoutStack('INTERNAL', `the upstream answered with ${what} that cannot be read`)

/** What the upstream refused. Its key is never told, and neither is what it says about the key. */
export function upstreamError(status: number, body: string, retryAfter: string | null): ServerError {
  if (status === 401 || status === 403) {
    return ServerError.withoutStack(
      'INTERNAL',
      `the upstream refuses the key of this server (HTTP ${status}): see 'api_key_env'`,
    )
  }
  const why = messageIn(body)
  if (status === 429 || status === 503) {
    const secs = Number(retryAfter)
    return ServerError.withoutStack(
      'UNAVAILABLE',
      `the upstream is busy: ${why}`,
      Number.isFinite(secs) && secs > 0 ? Math.min(secs, 3600) : 1,
    )
  }
  if (status === 404)
    return ServerError.withoutStack('INTERNAL', `the upstream does not know the model or the call: ${why}`)
  if (status >= 400 && status < 500) return ServerError.withoutStack('INVALID_ARG', why)
  return ServerError.withoutStack('INTERNAL', `the upstream failed (HTTP ${status}): ${why}`)
}

/** `{"error": {"message"}}`, `{"error": "…"}`, or a plain text. */
export function messageIn(body: string): string {
  try {
    const json = objectOf(JSON.parse(body) as unknown)
    const error = json['error'] ?? json['message'] ?? json['detail']
    const told = typeof error === 'string' ? error : objectOf(error)['message']
    if (typeof told === 'string') return told.slice(0, 1000)
  } catch {
    // The text itself is all there is.
  }
  return body.slice(0, 200)
}
