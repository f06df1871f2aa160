// Header blocks of gRPC: those of requests are prepared once per connection, those of answers are read for the three
// fields that count. The connection tells the server to use no table of its own (SETTINGS_HEADER_TABLE_SIZE = 0), so equal
// answers come as equal bytes and a block that was read before needs a comparison only.

import { staticFieldIndex, staticFields, staticNameIndex } from './hpack-static-table.ts'
import { decodeHuffman } from './huffman.ts'

export type HeaderField = readonly [name: string, value: string]

/**
 * The block for the first request of a connection, which puts every field into the server's table, and the block for all
 * that follow, which names the entries. Without a table both spell the fields out.
 */
export function requestBlocks(
  fields: readonly HeaderField[],
  hasTable: boolean,
): { readonly first: Buffer; readonly later: Buffer } {
  const first: Buffer[] = []
  const later: Buffer[] = []
  let added = 0
  const addedIndex = fields.map(([name, value]) => (staticFieldIndex(name, value) === 0 ? added++ : -1))
  for (const [at, [name, value]] of fields.entries()) {
    const whole = staticFieldIndex(name, value)
    if (whole !== 0) {
      first.push(integer(whole, 7, 0x80))
      later.push(integer(whole, 7, 0x80))
      continue
    }
    const nameIndex = staticNameIndex(name)
    const literal = [integer(nameIndex, hasTable ? 6 : 4, hasTable ? 0x40 : 0x00)]
    if (nameIndex === 0) literal.push(string(name))
    literal.push(string(value))
    first.push(...literal)
    // The newest entry has the lowest number.
    if (hasTable) later.push(integer(staticFields.length + added - (addedIndex[at] ?? 0), 7, 0x80))
    else later.push(...literal)
  }
  return { first: Buffer.concat(first), later: Buffer.concat(later) }
}

/** What the fields take in the server's table, by RFC 7541, 4.1. */
export const tableBytes = (fields: readonly HeaderField[]): number =>
  fields.reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value) + 32, 0)

function integer(value: number, prefixBits: number, pattern: number): Buffer {
  const limit = 2 ** prefixBits - 1
  if (value < limit) return Buffer.from([pattern | value])
  const bytes = [pattern | limit]
  let rest = value - limit
  while (rest >= 128) {
    bytes.push((rest & 127) | 128)
    rest = Math.floor(rest / 128)
  }
  return Buffer.from([...bytes, rest])
}

const string = (text: string): Buffer => {
  const bytes = Buffer.from(text, 'utf8')
  return Buffer.concat([integer(bytes.length, 7, 0x00), bytes])
}

export type AnswerHeaders = {
  /** 0 where the block has none. */
  readonly httpStatus: number
  /** -1 where the block has none. */
  readonly grpcStatus: number
  readonly grpcMessage: string
  readonly encoding: string
}

/** Throws when the block is broken or refers to a table, which it was told not to. */
export function readAnswerHeaders(block: Uint8Array): AnswerHeaders {
  const found = { httpStatus: 0, grpcStatus: -1, grpcMessage: '', encoding: '' }
  const reader = new BlockReader(block)
  while (!reader.isAtEnd) {
    const [name, value] = reader.field()
    if (name === ':status') found.httpStatus = Number(value)
    else if (name === 'grpc-status') found.grpcStatus = Number(value)
    else if (name === 'grpc-message') found.grpcMessage = percentDecoded(value)
    else if (name === 'grpc-encoding') found.encoding = value
  }
  return found
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // A bare % is no reason to lose the message.
    return text
  }
}

class BlockReader {
  readonly #block: Uint8Array
  #at = 0

  constructor(block: Uint8Array) {
    this.#block = block
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#block.length
  }

  /** A change of the table's size counts as a field without a name. */
  field(): HeaderField {
    const byte = this.#block[this.#at] as number
    if ((byte & 0x80) !== 0) return this.#ofStatic(this.#integer(7))
    if ((byte & 0xe0) === 0x20) {
      this.#integer(5)
      return ['', '']
    }
    const nameIndex = this.#integer((byte & 0x40) === 0 ? 4 : 6)
    const name = nameIndex === 0 ? this.#string() : this.#ofStatic(nameIndex)[0]
    return [name, this.#string()]
  }

  #ofStatic(index: number): HeaderField {
    const field = staticFields[index - 1]
    if (field === undefined) throw new Error(`header block refers to entry ${index} of an empty table`)
    return field
  }

  #integer(prefixBits: number): number {
    const limit = 2 ** prefixBits - 1
    let value = this.#byte() & limit
    if (value < limit) return value
    for (let scale = 1; scale <= 128 ** 4; scale *= 128) {
      const byte = this.#byte()
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
    throw new Error('header block has a number that is too long')
  }

  #string(): string {
    const isHuffman = ((this.#block[this.#at] ?? 0) & 0x80) !== 0
    const length = this.#integer(7)
    const end = this.#at + length
    if (end > this.#block.length) throw new Error('header block ends inside a string')
    const bytes = this.#block.subarray(this.#at, end)
    this.#at = end
    if (!isHuffman) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
    const text = decodeHuffman(bytes)
    if (text === null) throw new Error('header block has a string that is no Huffman code')
    return text
  }

  #byte(): number {
    const byte = this.#block[this.#at++]
    if (byte === undefined) throw new Error('header block is cut short')
    return byte
  }
}
