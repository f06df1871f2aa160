import type { HpackDecoder } from './hpack-decoder.ts'

/** Enough for the methods that a client calls in turn, and for the heads and trailers of a server's answers. */
const mostBlocks = 4
const longestBlockBytes = 1024

/**
 * The last header blocks of a connection and what they mean. Clients and servers send the same blocks again and again. While
 * the table has not changed, an equal block has the same meaning: it is neither decoded nor checked again.
 */
export class HeaderBlockMemo<T> {
  readonly #decoder: HpackDecoder
  readonly #maxListBytes: number
  readonly #parse: (fields: readonly string[]) => T | null
  readonly #known: { readonly block: Buffer; readonly meaning: T }[] = []
  #next = 0
  /** The version of the table that the known blocks were decoded with. */
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
    // A block that changed the table may mean something else the next time.
    if (meaning !== null && decoder.tableVersion === tableVersion && block.length <= longestBlockBytes) {
      this.#known[this.#next] = { block: Buffer.from(block), meaning }
      this.#next = (this.#next + 1) % mostBlocks
    }
    return meaning
  }
}
