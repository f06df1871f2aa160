// HPACK (RFC 7541): names and values → header blocks. The server puts two fields into a client's table, those of every
// answer that went well. With them the headers of such an answer take three bytes.

import { staticFieldIndex, staticFields, staticNameIndex } from './hpack-static-table.ts'
import { defaultHeaderTableBytes } from './http2-format.ts'

export type HeaderField = readonly [name: string, value: string]

/** A block that needs nothing of the table and leaves nothing in it. */
export function encodeHeaderBlock(fields: readonly HeaderField[]): Buffer {
  const bytes: number[] = []
  for (const [name, value] of fields) {
    const known = staticFieldIndex(name, value)
    if (known === 0) pushLiteral(bytes, 0x00, 0x0f, name, value)
    else pushNumber(bytes, 0x80, 0x7f, known)
  }
  return Buffer.from(bytes)
}

/** A field that the other side puts into its table. */
export function encodeKept([name, value]: HeaderField): Buffer {
  const bytes: number[] = []
  pushLiteral(bytes, 0x40, 0x3f, name, value)
  return Buffer.from(bytes)
}

/** A field of the tables; the newest of the other side's own has the index after the static ones. */
export function encodeIndexed(index: number): Buffer {
  const bytes: number[] = []
  pushNumber(bytes, 0x80, 0x7f, index)
  return Buffer.from(bytes)
}

function pushLiteral(bytes: number[], kind: number, mask: number, name: string, value: string): void {
  const index = staticNameIndex(name)
  pushNumber(bytes, kind, mask, index)
  if (index === 0) pushText(bytes, name)
  pushText(bytes, value)
}

function pushText(bytes: number[], text: string): void {
  const encoded = Buffer.from(text)
  pushNumber(bytes, 0x00, 0x7f, encoded.length)
  for (const byte of encoded) bytes.push(byte)
}

function pushNumber(bytes: number[], kind: number, mask: number, value: number): void {
  if (value < mask) {
    bytes.push(kind | value)
    return
  }
  bytes.push(kind | mask)
  let rest = value - mask
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80)
  bytes.push(rest)
}

const status: HeaderField = [':status', '200']
const contentType: HeaderField = ['content-type', 'application/grpc']
const statusOk: HeaderField = ['grpc-status', '0']

/** The head and the trailers of most answers. `HpackEncoder` writes shorter blocks in their place. */
export const plainHead: Buffer = encodeHeaderBlock([status, contentType])
export const okTrailers: Buffer = encodeHeaderBlock([statusOk])

const firstHead = Buffer.concat([encodeHeaderBlock([status]), encodeKept(contentType)])
const firstTrailers = encodeKept(statusOk)
const newestField = staticFields.length + 1
const laterHeads = [newestField, newestField + 1].map((index) =>
  Buffer.concat([encodeHeaderBlock([status]), encodeIndexed(index)]),
)
const laterTrailers = encodeIndexed(newestField)

/** 'The table has no room from now on.' */
export const emptyTable: Buffer = Buffer.of(0x20)

export class HpackEncoder {
  #hasHead = false
  #hasTrailers = false
  #usesTable = true
  #mustEmptyTable = false

  /** The client's SETTINGS_HEADER_TABLE_SIZE. With less than the default nothing is kept any more. */
  limitTable(bytes: number): void {
    if (bytes >= defaultHeaderTableBytes || !this.#usesTable) return
    this.#usesTable = false
    this.#mustEmptyTable = true
  }

  /** What to write for a block, in the order in which blocks are written. HOT: twice per answer. */
  encode(block: Buffer): Buffer {
    if (!this.#usesTable) return this.#withoutTable(block)
    if (block === plainHead) {
      if (this.#hasHead) return laterHeads[this.#hasTrailers ? 1 : 0] as Buffer
      this.#hasHead = true
      return firstHead
    }
    // The head must be in the table first: then the trailers stay the newest field.
    if (block === okTrailers && this.#hasHead) {
      if (this.#hasTrailers) return laterTrailers
      this.#hasTrailers = true
      return firstTrailers
    }
    return block
  }

  #withoutTable(block: Buffer): Buffer {
    if (!this.#mustEmptyTable) return block
    this.#mustEmptyTable = false
    return Buffer.concat([emptyTable, block])
  }
}
