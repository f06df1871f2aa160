// Which arm a request goes to by weight. A request with a key always goes to the same arm: the key's SHA-256 says which of
// 10,000 buckets it is in, and anybody can work that out outside of the server. A request without a key is drawn.

import { hash } from 'node:crypto'

/** Weights and buckets count in hundredths of a per cent. */
export const fullWeight = 10_000

const mostKeptKeys = 8192
/** Longer keys are hashed each time: they would fill the memory. */
const longestKeptKey = 256

/** The first four bytes of SHA-256 of `salt:key`, big-endian, times 10,000, divided by 2^32: 0 to 9999. */
export function bucketOf(salt: string, key: string): number {
  const first = Number.parseInt(hash('sha256', `${salt}:${key}`, 'hex').slice(0, 8), 16)
  return bucketOfDraw(first)
}

/** `draw` is a whole number of 32 bits. */
const bucketOfDraw = (draw: number): number => Math.floor((draw * fullWeight) / 2 ** 32)

/** An arm beside stable. `cap` is the highest weight that the arm will ever get: it keeps room for its growth. */
export type Lane = { readonly weight: number; readonly cap: number }

/**
 * The number of the lane that has the bucket; -1: stable. A lane starts at the sum of the caps before it, so a weight that
 * grows never moves a key from one arm to another, and never back to stable.
 */
export function laneOf(lanes: readonly Lane[], bucket: number): number {
  let start = 0
  for (let i = 0; i < lanes.length; i++) {
    const { weight, cap } = lanes[i] as Lane
    if (bucket < start) return -1
    if (bucket < start + weight) return i
    start += cap
  }
  return -1
}

/** Numbers of 32 bits that look random, the same for the same seed (xoshiro128**). HOT: once per request without a key. */
export class RandomDraws {
  #a: number
  #b: number
  #c: number
  #d: number

  constructor(seed: number) {
    // The seed is spread over all four words (splitmix32); none of them may leave all at 0.
    let state = seed | 0
    const word = (): number => {
      state = (state + 0x9e3779b9) | 0
      let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
      return mixed ^ (mixed >>> 15)
    }
    this.#a = word()
    this.#b = word()
    this.#c = word()
    this.#d = word() | 1
  }

  next(): number {
    const scrambled = Math.imul(this.#b, 5)
    const drawn = Math.imul((scrambled << 7) | (scrambled >>> 25), 9) >>> 0
    const shifted = this.#b << 9
    this.#c ^= this.#a
    this.#d ^= this.#b
    this.#b ^= this.#c
    this.#a ^= this.#d
    this.#c ^= shifted
    this.#d = (this.#d << 11) | (this.#d >>> 21)
    return drawn
  }

  /** Even over [0, 1). */
  readonly share = (): number => this.next() / 2 ** 32

  bucket(): number {
    return bucketOfDraw(this.next())
  }
}

/** The buckets of one salt. Keeps those of the last keys: a hash costs microseconds. */
export class StickyBuckets {
  readonly #salt: string
  #recent = new Map<string, number>()
  #older = new Map<string, number>()

  constructor(salt: string) {
    this.#salt = salt
  }

  /** HOT: once per request with a key. */
  bucket(key: string): number {
    const known = this.#recent.get(key)
    if (known !== undefined) return known
    const bucket = this.#older.get(key) ?? bucketOf(this.#salt, key)
    if (key.length <= longestKeptKey) this.#keep(key, bucket)
    return bucket
  }

  get keptKeys(): number {
    return this.#recent.size + this.#older.size
  }

  /** Two halves in turn: a full one is forgotten as a whole, which costs nothing per key. */
  #keep(key: string, bucket: number): void {
    if (this.#recent.size >= mostKeptKeys / 2) {
      this.#older = this.#recent
      this.#recent = new Map()
    }
    this.#recent.set(key, bucket)
  }
}
