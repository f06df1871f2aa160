// Compression of infer requests and responses. Small bodies are done on the main thread, because the way to the thread
// pool costs more. Larger bodies go to the thread pool, a few at a time, so that the event loop never waits for zlib.

import { deflate, deflateSync, gzip, gzipSync, unzip, unzipSync } from 'node:zlib'

import { RingQueue } from '../../base/ring-queue.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'

type ContentEncoding = 'identity' | 'gzip' | 'deflate'

/** Up to this size zlib runs on the main thread. At zlib's best ratio (about 1000) the result has 4 MB: a few ms. */
const inlineInputBytes = 4096
const inlineOutputBytes = 16 * 1024

/** The encoding that `Content-Encoding` names; null: unknown. Case matters: Triton knows no `GZIP` and no `x-gzip`. */
export function requestEncoding(header: string | null): ContentEncoding | null {
  switch (header) {
    case null:
    case '':
    case 'identity':
      return 'identity'
    case 'gzip':
    case 'deflate':
      return header
    default:
      return null
  }
}

/** The encoding of highest weight in `Accept-Encoding`; of equal ones the first listed. Names are case-sensitive. */
export function responseEncoding(header: string | null): ContentEncoding {
  if (header === null || header === '') return 'identity'
  let chosen: ContentEncoding = 'identity'
  let chosenWeight = 0
  for (const entry of header.split(',')) {
    const weightAt = entry.indexOf(';q=')
    const name = (weightAt < 0 ? entry : entry.slice(0, weightAt)).replace(/^ +/, '')
    if (name !== 'identity' && name !== 'gzip' && name !== 'deflate') continue
    // A weight that is not a number gives NaN. Comparisons with NaN are false, so the entry is skipped, as in Triton.
    const weight = weightAt < 0 ? 1 : Number.parseFloat(entry.slice(weightAt + 3))
    if (!(weight > chosenWeight)) continue
    chosen = name
    chosenWeight = weight
  }
  return chosen
}

/** zlib's errors for bytes that are not a compressed stream. */
const headerComplaints: ReadonlySet<string> = new Set([
  'incorrect header check',
  'unknown compression method',
  'invalid window size',
])

/** How many bodies are inflated at the same time: each may grow to the limit, also from a small body. */
const mostInflating = 4

/** Inflates request bodies. It recognises gzip and zlib by the bytes, not by the header. */
export class BodyInflater {
  readonly #limitBytes: number
  readonly #waiting = new RingQueue<() => void>()
  #inflatingCount = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Calls `done` before it returns when the body is small, later otherwise; exactly once. */
  inflate(body: Buffer, done: (error: ServerError | null, inflated: Buffer) => void): void {
    if (body.length === 0) {
      done(ServerError.withoutStack('INVALID_ARG', 'nothing to be decompressed'), body)
      return
    }
    if (body.length > inlineInputBytes) {
      this.#inflateLater(body, done)
      return
    }
    let inflated = noBytes
    let error: ServerError | null = null
    try {
      inflated = unzipSync(body, { maxOutputLength: this.#limitBytes })
    } catch (reason) {
      error = this.#errorOf(reason)
    }
    done(error, inflated)
  }

  #inflateLater(body: Buffer, done: (error: ServerError | null, inflated: Buffer) => void): void {
    const start = (): void => {
      this.#inflatingCount++
      unzip(body, { maxOutputLength: this.#limitBytes }, (reason, inflated) => {
        this.#inflatingCount--
        this.#waiting.take()?.()
        done(reason === null ? null : this.#errorOf(reason), reason === null ? inflated : noBytes)
      })
    }
    if (this.#inflatingCount < mostInflating) start()
    else this.#waiting.push(start)
  }

  #errorOf(reason: unknown): ServerError | null {
    if (reason instanceof Error && 'code' in reason && reason.code === 'ERR_BUFFER_TOO_LARGE') {
      return ServerError.withoutStack(
        'INVALID_ARG',
        `Decompressed data size exceeds the maximum allowed value of ${this.#limitBytes} bytes. Use --http-max-input-size to increase the limit.`,
      )
    }
    // Triton treats a body that is not compressed as an empty body; its clients know the error that follows.
    if (headerComplaints.has(messageOf(reason))) return null
    // A stream that breaks off or fails its checksum is refused; Triton would use the bytes that came out so far.
    return ServerError.withoutStack('INVALID_ARG', `failed to decompress the request body: ${messageOf(reason)}`)
  }
}

const noBytes = Buffer.alloc(0)

/** Calls `done` with null when zlib failed: then the answer is sent uncompressed. */
export function deflateBody(body: Buffer, encoding: 'gzip' | 'deflate', done: (deflated: Buffer | null) => void): void {
  if (body.length > inlineOutputBytes) {
    const compress = encoding === 'gzip' ? gzip : deflate
    compress(body, (reason, deflated) => done(reason === null ? deflated : null))
    return
  }
  done(encoding === 'gzip' ? gzipSync(body) : deflateSync(body))
}
