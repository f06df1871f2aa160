// Compression of infer requests and responses. Small bodies are done on the main thread, because the way to the thread
// pool costs more. Larger bodies go to the thread pool, a few at a time, so that the event loop never waits for zlib.

import { Readable } from 'node:stream'
import { createDeflate, createGzip, createUnzip, deflate, deflateSync, gzip, gzipSync, unzipSync } from 'node:zlib'

import { ServerError } from '../../base/server-error.ts'
import { turnBudget } from '../../base/turn-budget.ts'
import { inflateFailure, type InflateFailure } from '../../transport/inflate-queue.ts'
import type { RequestMemory } from '../../transport/request-memory.ts'

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

/** What a few bytes have become may take as long to read as any body of this size. */
const smallInflatedBytes = 4096

/** Inflates request bodies. It recognises gzip and zlib by the bytes, not by the header. */
export class BodyInflater {
  readonly #limitBytes: number

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Calls `done` before it returns when the body is small, later otherwise; once, or never if the request ends before. */
  inflate(body: Buffer, memory: RequestMemory, done: (error: ServerError | null, inflated: Buffer) => void): void {
    if (body.length === 0) {
      done(ServerError.withoutStack('INVALID_ARG', 'nothing to be decompressed'), body)
      return
    }
    const finish = (failure: InflateFailure | null, inflated: Buffer): void => {
      const error = failure === null ? null : this.#errorOf(failure, body.length, memory)
      if (inflated.length <= smallInflatedBytes) done(error, inflated)
      else turnBudget.take(inflated.length, () => done(error, inflated))
    }
    const { inflations } = memory.server
    const mostBytes = inflations.firstLimit(body.length, this.#limitBytes)
    if (body.length > inlineInputBytes || !memory.hasRoomToInflate(mostBytes)) {
      inflations.inflate(body, this.#limitBytes, createUnzip, memory, finish)
      return
    }
    let inflated = noBytes
    let failure: InflateFailure | null = null
    try {
      inflated = unzipSync(body, { maxOutputLength: mostBytes })
      if (!memory.reserveInflated(inflated.length)) failure = 'no-room'
    } catch (reason) {
      failure = inflateFailure(reason, mostBytes, this.#limitBytes)
      if (failure === 'ratio' && inflations.mayBecomeMore(body.length, mostBytes, this.#limitBytes)) {
        inflations.inflate(body, this.#limitBytes, createUnzip, memory, finish)
        return
      }
    }
    finish(failure, failure === null ? inflated : noBytes)
  }

  #errorOf(failure: InflateFailure, bodyBytes: number, { server }: RequestMemory): ServerError | null {
    if (failure === 'limit') {
      return ServerError.withoutStack(
        'INVALID_ARG',
        `Decompressed data size exceeds the maximum allowed value of ${this.#limitBytes} bytes. Use --http-max-input-size to increase the limit.`,
      )
    }
    if (failure === 'ratio') {
      const times = `${server.inflations.mostPerByte} times the ${bodyBytes} bytes of the request body`
      return ServerError.withoutStack(
        'INVALID_ARG',
        `Decompressed data size exceeds ${times}. Send it less compressed, or use --max-decompression-ratio to increase the limit.`,
      )
    }
    if (failure === 'no-room') {
      return ServerError.withoutStack(
        'UNAVAILABLE',
        server.refuse(server.inflations.firstLimit(bodyBytes, this.#limitBytes)),
      )
    }
    // Triton treats a body that is not compressed as an empty body; its clients know the error that follows.
    if (headerComplaints.has(failure.message)) return null
    // A stream that breaks off or fails its checksum is refused; Triton would use the bytes that came out so far.
    return ServerError.withoutStack('INVALID_ARG', `failed to decompress the request body: ${failure.message}`)
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

/** What zlib is given at a time, and gives back. */
const deflateSliceBytes = 1024 * 1024
const deflatedPieceBytes = 64 * 1024

/** A compression that is under way. After `stop` it ends soon, as one that failed. */
type Deflating = { stop(): void }

/**
 * The same for a large answer in several parts, which nobody may change before `done`: it is neither put together before nor after,
 * because that would hold others up and take its size in memory once more.
 */
export function deflateParts(
  parts: readonly Uint8Array[],
  encoding: 'gzip' | 'deflate',
  done: (deflated: Buffer[] | null) => void,
): Deflating {
  const options = { chunkSize: deflatedPieceBytes }
  const stream = encoding === 'gzip' ? createGzip(options) : createDeflate(options)
  const pieces: Buffer[] = []
  stream.on('data', (piece: Buffer) => pieces.push(piece))
  // It closes once, after its end or after an error or `stop`.
  stream.on('error', () => undefined)
  stream.on('close', () => done(stream.readableEnded ? pieces : null))
  Readable.from(slicesOf(parts), { objectMode: false, highWaterMark: 1 }).pipe(stream)
  return { stop: () => void stream.destroy() }
}

function* slicesOf(parts: readonly Uint8Array[]): Generator<Uint8Array> {
  for (const part of parts) {
    for (let at = 0; at < part.length; at += deflateSliceBytes) yield part.subarray(at, at + deflateSliceBytes)
  }
}
