// Inflates the compressed requests of all ports in the thread pool, a few at a time and only while there is room for what
// they may become. A request whose client has gone is dropped without being inflated.

import { RingQueue } from '../base/ring-queue.ts'
import { inflateBytes, InflatedTooLarge, type OpenInflater } from './inflate-bytes.ts'

/** Where the bytes of a request are counted: its RequestMemory. */
export type InflatedMemory = {
  readonly isEnded: boolean
  /** Called once when the request ends. */
  onEnd: (() => void) | null
  hasRoomToInflate(bytes: number): boolean
  reserveInflated(bytes: number): boolean
  shrinkInflated(bytes: number): void
}

/** `limit`, `ratio`: the request becomes larger than is allowed. `no-room`: too much is held for clients. Else zlib's error. */
export type InflateFailure = 'limit' | 'ratio' | 'no-room' | Error

type Inflation = {
  readonly bytes: Buffer
  readonly mostBytes: number
  readonly limitBytes: number
  readonly open: OpenInflater
  readonly memory: InflatedMemory
  /** Exactly once, unless the request has ended before. */
  readonly done: (failure: InflateFailure | null, inflated: Buffer) => void
}

/** The most requests that are inflated at the same time. */
const mostInflating = 4
/** Up to this size a request may grow by any factor, above it by `--max-decompression-ratio`. */
const freeBytes = 4 * 1024 * 1024
/** The default of `--max-decompression-ratio`. Text of numbers grows by 3 to 10, a tensor of zeros by 1000. */
const mostInflatedPerByte = 100
/** So much is reserved for a request at first: where a tensor of zeros may come, nearly no request is one. */
const usualInflatedPerByte = 100
/** A request that needs more room, and may have it, is inflated again, with so many times the room. */
const roomGrowth = 4

export function inflateFailure(reason: unknown, mostBytes: number, limitBytes: number): InflateFailure {
  const isTooLargeForZlib = reason instanceof Error && 'code' in reason && reason.code === 'ERR_BUFFER_TOO_LARGE'
  if (isTooLargeForZlib || reason instanceof InflatedTooLarge) return mostBytes < limitBytes ? 'ratio' : 'limit'
  return reason instanceof Error ? reason : new Error(String(reason))
}

export class InflateQueue {
  /** `--max-decompression-ratio`; Infinity for none. */
  readonly mostPerByte: number
  readonly #waiting = new RingQueue<Inflation>()
  #inflatingCount = 0

  constructor(mostPerByte: number = mostInflatedPerByte) {
    this.mostPerByte = mostPerByte
  }

  /** What is reserved at first for so many compressed bytes. */
  firstLimit(compressedBytes: number, limitBytes: number): number {
    const mostPerByte = Math.min(this.mostPerByte, usualInflatedPerByte)
    return Math.min(limitBytes, Math.max(freeBytes, compressedBytes * mostPerByte))
  }

  /** Whether a request of so many compressed bytes may become larger than `mostBytes`. */
  mayBecomeMore(compressedBytes: number, mostBytes: number, limitBytes: number): boolean {
    return mostBytes < this.#lastLimit(compressedBytes, limitBytes)
  }

  /** What so many compressed bytes may become at most. */
  #lastLimit(compressedBytes: number, limitBytes: number): number {
    return Math.min(limitBytes, Math.max(freeBytes, compressedBytes * this.mostPerByte))
  }

  get waitingCount(): number {
    return this.#waiting.size
  }

  inflate(
    bytes: Buffer,
    limitBytes: number,
    open: OpenInflater,
    memory: InflatedMemory,
    done: Inflation['done'],
  ): void {
    const mostBytes = this.firstLimit(bytes.length, limitBytes)
    this.#enqueue({ bytes, mostBytes, limitBytes, open, memory, done })
    this.startNext()
  }

  #enqueue(inflation: Inflation): void {
    this.#waiting.push(inflation)
    inflation.memory.onEnd = () => this.#waiting.remove(inflation)
  }

  /** Called when a request that was inflated has ended. */
  startNext(): void {
    while (this.#inflatingCount < mostInflating) {
      const next = this.#waiting.peek()
      if (next === undefined) return
      if (!next.memory.hasRoomToInflate(next.mostBytes)) return
      this.#waiting.take()
      next.memory.onEnd = null
      this.#start(next)
    }
  }

  #start(inflation: Inflation): void {
    const { bytes, mostBytes, limitBytes, open, memory, done } = inflation
    if (!memory.reserveInflated(mostBytes)) {
      done('no-room', noBytes)
      return
    }
    this.#inflatingCount++
    inflateBytes(open, bytes, mostBytes, (reason, inflated) => {
      this.#inflatingCount--
      memory.shrinkInflated(mostBytes - (reason === null ? inflated.length : 0))
      if (!memory.isEnded) {
        if (reason === null) done(null, inflated)
        else if (reason instanceof InflatedTooLarge && this.mayBecomeMore(bytes.length, mostBytes, limitBytes)) {
          const more = Math.min(mostBytes * roomGrowth, this.#lastLimit(bytes.length, limitBytes))
          this.#enqueue({ ...inflation, mostBytes: more })
        } else done(inflateFailure(reason, mostBytes, limitBytes), noBytes)
      }
      this.startNext()
    })
  }
}

const noBytes = Buffer.alloc(0)
