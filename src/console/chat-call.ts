// Language models speak the wire of OpenAI. Only the page of the chat uses it.

import { signal } from '@preact/signals'
import { serverSentEvents } from '../client/http/server-sent-events.ts'
import { call, keyedFetch } from './server-api.ts'

export type ChatMessage = { readonly role: 'system' | 'user' | 'assistant'; readonly content: string }

/** Null: as the model does without being told. */
export type ChatSettings = { readonly temperature: number | null; readonly mostTokens: number | null }

export type ChatProgress = {
  readonly text: string
  readonly firstMs: number | null
  readonly totalMs: number | null
  /** What the server counted; the number of pieces while it has said nothing. */
  readonly tokens: number
  /** `length`: the limit of tokens ended the answer. '' while it comes. */
  readonly finish: string
}

/** Names of models that can be talked to; null until the server was asked. A server without such models answers with another list. */
export const chatModels = signal<ReadonlySet<string> | null>(null)

export async function findChatModels(): Promise<void> {
  const answer = (await call('/v1/models').catch(() => null)) as { data?: readonly { id?: unknown }[] } | null
  const ids = (answer?.data ?? []).map(({ id }) => id).filter((id) => typeof id === 'string')
  chatModels.value = new Set(ids)
}

export const chatBody = (
  model: string,
  messages: readonly ChatMessage[],
  { temperature, mostTokens }: ChatSettings,
): Readonly<Record<string, unknown>> => ({
  model,
  messages,
  ...(temperature === null ? {} : { temperature }),
  ...(mostTokens === null ? {} : { max_tokens: mostTokens }),
  stream: true,
})

type Chunk = {
  readonly error?: { readonly message?: string } | string
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null }
    readonly finish_reason?: string | null
  }[]
  readonly usage?: { readonly completion_tokens?: number } | null
}

/** Says the answer as it comes. Throws what the server says. */
export async function streamChat(
  model: string,
  messages: readonly ChatMessage[],
  settings: ChatSettings,
  stop: AbortSignal,
  show: (progress: ChatProgress) => void,
): Promise<void> {
  const started = performance.now()
  const response = await keyedFetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...chatBody(model, messages, settings), stream_options: { include_usage: true } }),
    signal: stop,
  })
  if (!response.ok || response.body === null) throw new Error(errorText(await response.text(), response.status))
  let progress: ChatProgress = { text: '', firstMs: null, totalMs: null, tokens: 0, finish: '' }
  for await (const data of serverSentEvents(response.body)) {
    if (data === '[DONE]') break
    const chunk = JSON.parse(data) as Chunk
    if (chunk.error !== undefined) throw new Error(errorText(data, response.status))
    const [choice] = chunk.choices ?? []
    const piece = choice?.delta?.content ?? ''
    progress = {
      text: progress.text + piece,
      firstMs: progress.firstMs ?? (piece === '' ? null : performance.now() - started),
      totalMs: null,
      tokens: chunk.usage?.completion_tokens ?? progress.tokens + (piece === '' ? 0 : 1),
      finish: choice?.finish_reason ?? progress.finish,
    }
    show(progress)
  }
  show({ ...progress, totalMs: performance.now() - started })
}

function errorText(text: string, status: number): string {
  try {
    const { error } = JSON.parse(text) as Chunk
    const message = typeof error === 'string' ? error : error?.message
    return message ?? `status ${status}`
  } catch {
    return text === '' ? `status ${status}` : text.slice(0, 500)
  }
}
