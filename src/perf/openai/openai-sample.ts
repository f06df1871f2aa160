import { serverSentEvents } from '../../client/http/server-sent-events.ts'

/** One answer of an OpenAI server, with the times of its pieces in milliseconds. */
export type OpenAiSample = {
  readonly startMs: number
  readonly endMs: number
  /** When each piece with text came; one for an answer that does not stream. */
  readonly piecesMs: readonly number[]
  readonly inputTokens: number
  readonly outputTokens: number
  /** '' for a good answer. */
  readonly error: string
}

type Usage = { readonly prompt_tokens?: number; readonly completion_tokens?: number; readonly output_tokens?: number }
type Chunk = {
  readonly usage?: Usage | null
  readonly response?: { readonly usage?: Usage | null }
  readonly error?: unknown
  readonly delta?: unknown
  readonly choices?: readonly {
    readonly text?: string
    readonly delta?: {
      readonly content?: string | null
      readonly reasoning_content?: string
      readonly tool_calls?: unknown
    }
  }[]
}

/** Sends one call. Does not throw: what went wrong is part of the sample. */
export async function sampleOf(call: () => Promise<Response>): Promise<OpenAiSample> {
  const startMs = performance.now()
  const piecesMs: number[] = []
  let usage: Usage = {}
  let error = ''
  const read = (json: Chunk): void => {
    if (json.error !== undefined && json.error !== null) error = JSON.stringify(json.error)
    usage = json.usage ?? json.response?.usage ?? usage
    if (hasText(json)) piecesMs.push(performance.now())
  }
  try {
    const answer = await call()
    if (!answer.ok) error = `HTTP ${answer.status}: ${(await answer.text()).slice(0, 300)}`
    else if (answer.headers.get('content-type')?.startsWith('text/event-stream') === true && answer.body !== null) {
      for await (const data of serverSentEvents(answer.body)) if (data !== '[DONE]') read(JSON.parse(data) as Chunk)
    } else {
      usage = ((await answer.json()) as Chunk).usage ?? {}
      piecesMs.push(performance.now())
    }
  } catch (reason) {
    error =
      reason instanceof Error
        ? `${reason.message}${reason.cause instanceof Error ? `: ${reason.cause.message}` : ''}`
        : String(reason)
  }
  return {
    startMs,
    endMs: performance.now(),
    piecesMs,
    inputTokens: usage.prompt_tokens ?? 0,
    // A server that does not count sends one token in a piece.
    outputTokens: usage.completion_tokens ?? usage.output_tokens ?? piecesMs.length,
    error,
  }
}

function hasText({ choices = [], delta }: Chunk): boolean {
  if (typeof delta === 'string') return delta !== ''
  return choices.some(({ text = '', delta: piece }) => {
    const said = piece?.content ?? ''
    return text !== '' || said !== '' || piece?.reasoning_content !== undefined || piece?.tool_calls !== undefined
  })
}
