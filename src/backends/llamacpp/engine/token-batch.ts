import type { RuntimeBatch } from './language-runtime.ts'
import { addressOf } from './llama-library.ts'

/** The tokens of one decode, in arrays that the library reads where they are. */
export class TokenBatch implements RuntimeBatch {
  readonly tokens: Int32Array
  readonly #positions: Int32Array
  readonly #sequences: Int32Array
  readonly #sequenceCounts: Int32Array
  readonly #sequenceAddresses: BigInt64Array
  readonly #wanted: Int8Array
  readonly #addresses: Readonly<Record<string, number>>
  length = 0

  constructor(most: number) {
    this.tokens = new Int32Array(most)
    this.#positions = new Int32Array(most)
    this.#sequences = new Int32Array(most)
    this.#sequenceCounts = new Int32Array(most).fill(1)
    this.#sequenceAddresses = new BigInt64Array(most)
    this.#wanted = new Int8Array(most)
    const first = addressOf(this.#sequences)
    for (let i = 0; i < most; i++) this.#sequenceAddresses[i] = BigInt(first + 4 * i)
    this.#addresses = {
      token: addressOf(this.tokens),
      embd: 0,
      pos: addressOf(this.#positions),
      n_seq_id: addressOf(this.#sequenceCounts),
      seq_id: addressOf(this.#sequenceAddresses),
      logits: addressOf(this.#wanted),
    }
  }

  /** How many tokens fit. */
  get most(): number {
    return this.tokens.length
  }

  clear(): void {
    this.length = 0
  }

  /** The place of the token in the batch. `isWanted`: what comes after the token is to be computed. */
  add(token: number, position: number, sequence: number, isWanted: boolean): number {
    const at = this.length++
    this.tokens[at] = token
    this.#positions[at] = position
    this.#sequences[at] = sequence
    this.#wanted[at] = isWanted ? 1 : 0
    return at
  }

  /** The struct of the library. */
  get struct(): Readonly<Record<string, number>> {
    return { n_tokens: this.length, ...this.#addresses }
  }
}
