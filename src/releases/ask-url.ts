import type { Clock } from '../base/clock.ts'

type Question = {
  readonly url: string
  readonly method: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly timeoutNs: number
}

/** Of an answer no more is read: it is a few words of JSON. */
const mostAnswerBytes = 64 * 1024

/** One call of a server that somebody else runs. Rejects after the time-out, also when the answer comes byte by byte. */
export async function askUrl(
  clock: Clock,
  question: Question,
): Promise<{ readonly status: number; readonly text: string }> {
  const { url, method, headers = {}, body, timeoutNs } = question
  const abort = new AbortController()
  const cancel = clock.after(timeoutNs, () => abort.abort(new Error(`no answer within ${timeoutNs / 1e9} s`)))
  try {
    // A redirect could lead to a place that the file does not name.
    const answer = await fetch(url, { method, headers, signal: abort.signal, redirect: 'error', ...(body === undefined ? {} : { body }) }) // prettier-ignore
    const pieces: Uint8Array[] = []
    let bytes = 0
    for await (const piece of answer.body ?? []) {
      bytes += piece.length
      if (bytes > mostAnswerBytes) throw new Error(`the answer has more than ${mostAnswerBytes} bytes`)
      pieces.push(piece)
    }
    return { status: answer.status, text: Buffer.concat(pieces).toString('utf8') }
  } finally {
    cancel()
    abort.abort()
  }
}
