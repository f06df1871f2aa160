// HPACK (RFC 7541): the other side's header blocks → names and values. One decoder per connection, because
// blocks refer to fields of earlier blocks.

import { defaultHeaderTableBytes, errorCodes } from './http2-format.ts'
import { Http2Error } from './http2-error.ts'
import { staticFields } from './hpack-static-table.ts'
import { decodeHuffman } from './huffman.ts'

/** What the other side may keep in the table at most. */
const tableBytes = defaultHeaderTableBytes
/** What each field counts for beside its name and value. */
const fieldBytes = 32
/** The most fields that fit into the table: each takes at least 32 bytes. A power of two. */
const mostFields = tableBytes / fieldBytes
const staticCount = staticFields.length
/** A block of more than so many times the limit comes from nobody who sent a little too much. */
const mostExcess = 16
/** A block of 64 KiB needs no larger numbers. */
const largestNumber = 2 ** 24

export class HpackDecoder {
  /** Changes with the table. While it does not change, equal blocks have equal meanings. */
  tableVersion = 0
  /** True when the last block held more than the limit: then its fields were not kept. */
  isTooLarge = false

  /** A ring: the newest field is before `#head`. */
  readonly #names: string[] = []
  readonly #values: string[] = []
  #head = 0
  #count = 0
  #bytes = 0
  #limitBytes = tableBytes

  #block: Buffer = Buffer.alloc(0)
  #at = 0
  #end = 0
  #fields: string[] = []
  #listBytes = 0

  /** Name, value, name, value… Throws Http2Error: nothing that follows on the connection can be understood then. */
  decode(block: Buffer, start: number, end: number, maxListBytes: number): string[] {
    this.#block = block
    this.#at = start
    this.#end = end
    this.#fields = []
    this.#listBytes = 0
    this.isTooLarge = false
    let isFirst = true
    while (this.#at < end) {
      const byte = block[this.#at] as number
      if (byte >= 0x20 && byte < 0x40) {
        if (!isFirst) throw corrupt('the table is resized after the first field')
        this.#resize(this.#readNumber(0x1f))
        continue
      }
      isFirst = false
      this.#readField(byte, maxListBytes)
    }
    const fields = this.#fields
    this.#block = nothing
    this.#fields = []
    return fields
  }

  #readField(byte: number, maxListBytes: number): void {
    let name: string
    let value: string
    if (byte >= 0x80) {
      const index = this.#readNumber(0x7f)
      name = this.#nameAt(index)
      value = this.#valueAt(index)
    } else {
      const isKept = byte >= 0x40
      const index = this.#readNumber(isKept ? 0x3f : 0x0f)
      name = index === 0 ? this.#readText() : this.#nameAt(index)
      value = this.#readText()
      if (isKept) this.#insert(name, value)
    }
    this.#listBytes += name.length + value.length + fieldBytes
    if (this.#listBytes > maxListBytes) {
      // Each byte of a block may stand for a field of 4 KiB: 64 KiB would be read for as long as 256 MiB.
      if (this.#listBytes > maxListBytes * mostExcess) throw new Http2Error(errorCodes.ENHANCE_YOUR_CALM, 'the headers are far too large') // prettier-ignore
      this.isTooLarge = true
      this.#fields.length = 0
    } else this.#fields.push(name, value)
  }

  #readNumber(mask: number): number {
    const first = (this.#block[this.#at++] as number) & mask
    if (first < mask) return first
    let value = mask
    for (let shift = 0; ; shift += 7) {
      if (this.#at >= this.#end) throw corrupt('a number is cut off')
      const byte = this.#block[this.#at++] as number
      value += (byte & 0x7f) * 2 ** shift
      if (value > largestNumber || shift > 28) throw corrupt('a number is too large')
      if (byte < 0x80) return value
    }
  }

  #readText(): string {
    if (this.#at >= this.#end) throw corrupt('a text is missing')
    const isHuffman = (this.#block[this.#at] as number) >= 0x80
    const length = this.#readNumber(0x7f)
    const start = this.#at
    const end = start + length
    if (end > this.#end) throw corrupt('a text is cut off')
    this.#at = end
    if (!isHuffman) return this.#block.toString('latin1', start, end)
    const text = decodeHuffman(this.#block, start, end)
    if (text === null) throw new Http2Error(errorCodes.COMPRESSION_ERROR, 'a text is not valid Huffman code')
    return text
  }

  #nameAt(index: number): string {
    if (index > 0 && index <= staticCount) return (staticFields[index - 1] as readonly [string, string])[0]
    return this.#names[this.#position(index)] as string
  }

  #valueAt(index: number): string {
    if (index > 0 && index <= staticCount) return (staticFields[index - 1] as readonly [string, string])[1]
    return this.#values[this.#position(index)] as string
  }

  #position(index: number): number {
    const back = index - staticCount
    if (index === 0 || back > this.#count) throw corrupt(`there is no field ${index} in the table`)
    return (this.#head - back) & (mostFields - 1)
  }

  #insert(name: string, value: string): void {
    const size = name.length + value.length + fieldBytes
    // A field larger than the table empties it and is not kept.
    if (size > this.#limitBytes && this.#count === 0) return
    this.tableVersion++
    this.#shrinkTo(this.#limitBytes - size)
    if (size > this.#limitBytes) return
    this.#names[this.#head] = name
    this.#values[this.#head] = value
    this.#head = (this.#head + 1) & (mostFields - 1)
    this.#count++
    this.#bytes += size
  }

  #resize(limitBytes: number): void {
    if (limitBytes > tableBytes) throw corrupt('the table is made larger than was agreed')
    if (limitBytes === this.#limitBytes) return
    this.tableVersion++
    this.#limitBytes = limitBytes
    this.#shrinkTo(limitBytes)
  }

  #shrinkTo(limitBytes: number): void {
    while (this.#count > 0 && this.#bytes > limitBytes) {
      const oldest = (this.#head - this.#count) & (mostFields - 1)
      this.#bytes -= (this.#names[oldest] as string).length + (this.#values[oldest] as string).length + fieldBytes
      this.#names[oldest] = ''
      this.#values[oldest] = ''
      this.#count--
    }
  }
}

const nothing = Buffer.alloc(0)

const corrupt = (what: string): Http2Error => new Http2Error(errorCodes.COMPRESSION_ERROR, what)
