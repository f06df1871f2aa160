import type { HpackDecoder } from './hpack-decoder.ts'

/** Methods that one client calls in turn, or the heads and trailers of a server; one more displaces another. */
const mostBlocks = 4
const longestBlockBytes = 1024

/**
 * Header blocks and what they mean. Both sides repeat themselves: a block that comes again while the table it refers to
 * has not changed means the same again, and is neither decoded nor checked.
 */
export class HeaderBlockMemo<T> {
  readonly #decoder: HpackDecoder
  readonly #maxListBytes: number
  readonly #parse: (fields: readonly string[]) => T | null
  readonly #known: { readonly block: Buffer; readonly meaning: T }[] = []
  #next = 0
  /** Of the table that the known blocks were decoded with. */
  #tableVersion = 0

  constructor(decoder: HpackDecoder, maxListBytes: number, parse: (fields: readonly string[]) => T | null) {
    this.#decoder = decoder
    this.#maxListBytes = maxListBytes
    this.#parse = parse
  }

  /** Null for a block without a meaning; `isTooLarge` of the decoder is set for one that is too long. HOT: once per block. */
  read(block: Buffer): T | null {
    const decoder = this.#decoder
    const { tableVersion } = decoder
    if (tableVersion === this.#tableVersion) {
      for (let i = 0; i < this.#known.length; i++) {
        const known = this.#known[i] as { readonly block: Buffer; readonly meaning: T }
        if (known.block.length === block.length && known.block.equals(block)) {
          decoder.isTooLarge = false
          return known.meaning
        }
      }
    } else {
      this.#known.length = 0
      this.#next = 0
      this.#tableVersion = tableVersion
    }
    const fields = decoder.decode(block, 0, block.length, this.#maxListBytes)
    if (decoder.isTooLarge) return null
    const meaning = this.#parse(fields)
    // A block that changed the table means something else the next time.
    if (meaning !== null && decoder.tableVersion === tableVersion && block.length <= longestBlockBytes) {
      this.#known[this.#next] = { block: Buffer.from(block), meaning }
      this.#next = (this.#next + 1) % mostBlocks
    }
    return meaning
  }
}
