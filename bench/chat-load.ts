// Chats with any OpenAI server at the same time, each as a stream: how many tokens came per second, and when.

import { request } from 'node:http'

export type ChatLoad = {
  readonly chats: number
  /** Tokens of each answer. */
  readonly tokens: number
  /** What the chat with this number asks; all different unless told otherwise. */
  readonly ask: (chat: number) => string
  /** The name of the model; without: `smol`. */
  readonly model?: string
  /** False for a server that does not know `ignore_eos`: an answer may be shorter then. */
  readonly ignoresEnd?: boolean
}
export type ChatMeasure = {
  readonly tokensPerSecond: number
  /** Milliseconds, one for each chat. */
  readonly firstTokenMs: readonly number[]
  /** Milliseconds, one for each further token. */
  readonly nextTokenMs: readonly number[]
}

export async function loadChats(
  base: string,
  { chats, tokens, ask, model = 'smol', ignoresEnd = true }: ChatLoad,
): Promise<ChatMeasure> {
  const startMs = performance.now()
  const answers = await Promise.all(
    Array.from({ length: chats }, (_, chat) => oneChat(base, { model, content: ask(chat), tokens, ignoresEnd })),
  )
  const tookMs = performance.now() - startMs
  return {
    tokensPerSecond: (answers.reduce((sum, { timesMs }) => sum + timesMs.length, 0) * 1000) / tookMs,
    firstTokenMs: answers.map(({ beganMs, timesMs }) => (timesMs[0] ?? NaN) - beganMs),
    nextTokenMs: answers.flatMap(({ timesMs }) =>
      timesMs.slice(1).map((time, place) => time - (timesMs[place] ?? NaN)),
    ),
  }
}

export const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? NaN

type Ask = Required<Pick<ChatLoad, 'model' | 'tokens' | 'ignoresEnd'>> & { readonly content: string }

/** When each token came. Pieces of one read came at the same time. */
function oneChat(
  base: string,
  { model, content, tokens, ignoresEnd }: Ask,
): Promise<{ beganMs: number; timesMs: number[] }> {
  const body = JSON.stringify({
    model, stream: true, max_tokens: tokens, temperature: 0, ...(ignoresEnd ? { ignore_eos: true } : {}), messages: [{ role: 'user', content }],
  }) // prettier-ignore
  const beganMs = performance.now()
  const timesMs: number[] = []
  return new Promise((resolve, reject) => {
    const call = request(
      `${base}/v1/chat/completions`,
      {
        method: 'POST',
        // llama-server closes connections that rest, so each chat has one of its own.
        agent: false,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
      },
      (answer) => {
        let text = ''
        answer.setEncoding('utf8')
        answer.on('data', (piece: string) => {
          const nowMs = performance.now()
          text += piece
          const events = text.split('\n\n')
          text = events.pop() ?? ''
          for (const event of events) if (/"content":"[^"]/.test(event)) timesMs.push(nowMs)
        })
        answer.on('end', () =>
          answer.statusCode === 200 ? resolve({ beganMs, timesMs }) : reject(new Error(`${answer.statusCode} ${text}`)),
        )
      },
    )
    call.on('error', reject)
    call.end(body)
  })
}
