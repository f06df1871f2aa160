// Makes sequences: their ids, their lengths, and the data of each request.

import { seededRandom } from './random.ts'
import type { SequenceStamp } from './prepared-request.ts'

export type SequenceSettings = {
  readonly startId: number
  /** How many ids there are before the first is used again; 0 for no end. */
  readonly idCount: number
  /** Null: as many requests as the stream of data has steps. */
  readonly length: number | null
  /** Lengths differ by up to this share, either way. */
  readonly lengthVariation: number
  readonly seed: number
  /** Several threads share the ids: each takes its every n-th. */
  readonly share: number
  readonly shares: number
}

/** Hands out ids, lengths and streams to the sequences that run beside each other. */
export class SequenceSource {
  readonly #settings: SequenceSettings
  readonly #stepsPerStream: readonly number[]
  readonly #random: () => number
  readonly #idsInUse = new Set<number>()
  #count = 0
  #idCount = 0

  constructor(settings: SequenceSettings, stepsPerStream: readonly number[]) {
    this.#settings = settings
    this.#stepsPerStream = stepsPerStream
    this.#random = seededRandom(settings.seed + settings.share)
  }

  begin(): RunningSequence {
    const { share, shares } = this.#settings
    const number = this.#count * shares + share
    this.#count++
    const stream = number % this.#stepsPerStream.length
    return new RunningSequence(this.#nextId(), stream, this.#lengthOf(stream))
  }

  /** The last request of the sequence is answered: its id may be used again. */
  release(id: number): void {
    this.#idsInUse.delete(id)
  }

  /** Skips ids that are in use: when the range begins again, long sequences may still have theirs. */
  #nextId(): number {
    const { startId, idCount, share, shares } = this.#settings
    const own = idCount === 0 ? Infinity : Math.max(1, Math.floor((idCount + shares - 1 - share) / shares))
    let id: number
    do {
      id = startId + share + shares * (this.#idCount++ % own)
    } while (this.#idsInUse.has(id) && this.#idsInUse.size < own)
    if (own !== Infinity) this.#idsInUse.add(id)
    return id
  }

  #lengthOf(stream: number): number {
    const { length, lengthVariation } = this.#settings
    if (length === null) return this.#stepsPerStream[stream] ?? 1
    const spread = Math.floor(length * lengthVariation)
    return Math.max(1, length + Math.floor(this.#random() * (2 * spread + 1)) - spread)
  }
}

export class RunningSequence {
  readonly id: number
  readonly stream: number
  readonly #length: number
  #sent = 0

  constructor(id: number, stream: number, length: number) {
    this.id = id
    this.stream = stream
    this.#length = length
  }

  /** Requests sent so far. */
  get step(): number {
    return this.#sent
  }

  get isOver(): boolean {
    return this.#sent >= this.#length
  }

  /** `isLast`: this request ends the sequence before its planned length. */
  next(isLast: boolean): SequenceStamp {
    const isStart = this.#sent === 0
    this.#sent = isLast ? Math.max(this.#sent + 1, this.#length) : this.#sent + 1
    return { id: this.id, isStart, isEnd: this.isOver }
  }
}
