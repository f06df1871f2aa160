// Collects a request's body in one buffer. A body that comes in one piece is used as it is. Otherwise the buffer has at most
// sixteen times the bytes that arrived, whatever size the client announced, and is not touched before bytes come for it.

import { isInPlace, leastDirectBytes } from '../lent-buffer-socket.ts'

const firstBytes = 16 * 1024
const growth = 16

/** A chunked body of more pieces is refused: a small piece costs far more work than its bytes are worth. */
const mostPieces = 65536

/** A body over the limit is still received, so that its client reads the answer, up to this many times the limit. */
const patience = 16

/** `over-budget`: too much is held for clients. */
export type BodyRefusal = 'too-large' | 'too-many-chunks' | 'no-memory' | 'over-budget'
type BodyState = 'receiving' | 'complete' | BodyRefusal

type CollectorOptions = {
  readonly allocate?: (bytes: number) => Buffer
  /** Memory that is there already, for a body of so many bytes; null: there is none. */
  readonly kept?: (bytes: number) => Buffer | null
  /** Such memory is for others again: the body is refused, or its client has gone. */
  readonly giveBack?: (memory: Buffer) => void
  readonly patienceBytes?: number
  /** Counts bytes that arrived; false when they cannot be kept. */
  readonly reserve?: (bytes: number) => boolean
}

export class BodyCollector {
  readonly #limitBytes: number
  readonly #patienceBytes: number
  readonly #allocate: (bytes: number) => Buffer
  readonly #kept: (bytes: number) => Buffer | null
  readonly #giveBack: (memory: Buffer) => void
  readonly #reserve: (bytes: number) => boolean
  /** -1: a chunked body. */
  readonly #announcedBytes: number
  #buffer: Buffer | null = null
  /** The buffer lies in memory that goes back where the body has no use for it. */
  #isKept = false
  #receivedBytes = 0
  #pieceCount = 0
  #state: BodyState

  /** `patienceBytes`: how much of a body over the limit is heard out. */
  constructor(
    announcedBytes: number,
    limitBytes: number,
    {
      allocate = allocateFresh,
      kept = none,
      giveBack = ignore,
      patienceBytes = limitBytes * patience,
      reserve = always,
    }: CollectorOptions = {},
  ) {
    this.#reserve = reserve
    this.#patienceBytes = patienceBytes
    this.#allocate = allocate
    this.#kept = kept
    this.#giveBack = giveBack
    this.#announcedBytes = announcedBytes
    this.#limitBytes = limitBytes
    this.#state = announcedBytes > limitBytes ? 'too-large' : 'receiving'
  }

  get state(): BodyState {
    return this.#state
  }

  /** The bytes that were announced, or those that came if they are more. */
  get bodyBytes(): number {
    return Math.max(this.#receivedBytes, this.#announcedBytes)
  }

  /** True when the rest of the body is not waited for: the request is answered now and the connection closed. */
  get isBeyondPatience(): boolean {
    if (this.#state === 'too-many-chunks' || this.#state === 'no-memory' || this.#state === 'over-budget') return true
    return this.#state === 'too-large' && this.bodyBytes > this.#patienceBytes
  }

  /** True when the next piece will be copied. */
  get hasBegun(): boolean {
    return this.#receivedBytes > 0
  }

  /** Where the next bytes of a large body belong; null where they are to come as a piece. */
  get target(): Buffer | null {
    const buffer = this.#buffer
    if (buffer === null || this.#announcedBytes < 0 || this.#state !== 'receiving') return null
    return buffer.length - this.#receivedBytes < leastDirectBytes ? null : buffer.subarray(this.#receivedBytes)
  }

  /** Takes the first piece over. Once the body is refused, pieces are only counted. */
  add(piece: Buffer): void {
    const before = this.#receivedBytes
    this.#receivedBytes = before + piece.length
    if (this.#state !== 'receiving') return
    this.#pieceCount++
    if (this.#receivedBytes > this.#limitBytes) this.#refuse('too-large')
    else if (this.#announcedBytes < 0 && this.#pieceCount > mostPieces) this.#refuse('too-many-chunks')
    else if (!this.#reserve(piece.length)) this.#refuse('over-budget')
    else if (before === 0) this.#buffer = piece
    else this.#append(piece, before)
  }

  /** The body, in one piece. */
  finish(): Buffer {
    if (this.#state === 'receiving') this.#state = 'complete'
    const buffer = this.#buffer
    this.#buffer = null
    return buffer === null ? noBytes : buffer.subarray(0, this.#receivedBytes)
  }

  /** Nobody wants the body any more. Only where the system no longer reads into its memory. */
  drop(): void {
    if (this.#isKept && this.#buffer !== null) this.#giveBack(this.#buffer)
    this.#buffer = null
  }

  #append(piece: Buffer, offset: number): void {
    let buffer = this.#buffer as Buffer
    if (this.#receivedBytes > buffer.length || offset === buffer.length) {
      const larger = this.#grown()
      if (larger === null) return
      buffer.copy(larger, 0, 0, offset)
      buffer = larger
      this.#buffer = larger
    }
    if (!isInPlace(piece, buffer, offset)) piece.copy(buffer, offset)
  }

  /** Null when the system has no more memory: then this request is refused, and the server goes on. */
  #grown(): Buffer | null {
    const kept = this.#announcedBytes < 0 ? null : this.#kept(this.#announcedBytes)
    this.#isKept = kept !== null
    if (kept !== null) return kept.subarray(0, this.#announcedBytes)
    try {
      return this.#allocate(this.#capacityFor(this.#receivedBytes))
    } catch {
      this.#refuse('no-memory')
      return null
    }
  }

  #capacityFor(neededBytes: number): number {
    const wanted = Math.max(neededBytes * growth, firstBytes)
    if (this.#announcedBytes >= 0) return Math.max(neededBytes, Math.min(wanted, this.#announcedBytes))
    // Nobody knows how long a chunked body gets. Doubling the buffer wastes little memory.
    return Math.min(Math.max(neededBytes * 2, Math.min(firstBytes, this.#limitBytes)), this.#limitBytes)
  }

  #refuse(state: BodyRefusal): void {
    this.#state = state
    this.drop()
  }
}

const allocateFresh = (bytes: number): Buffer => Buffer.allocUnsafeSlow(bytes)

const ignore = (): void => undefined

const none = (): null => null

const always = (): boolean => true

const noBytes = Buffer.alloc(0)
