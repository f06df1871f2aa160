// How far from the start of its memory a message is to begin, so that its tensor lies at an address that models can read from. Without
// this the tensor is copied once more.

/** What the widest data type and vector instructions want. */
const alignment = 64

/**
 * `head` is the beginning of a message of Protocol Buffers. The first field that goes on beyond it is taken for the tensor; 0 where there
 * is none, or where the bytes are something else.
 */
export function leadOf(head: Buffer): number {
  let at = 0
  while (at < head.length) {
    const tag = readVarint(head, at)
    if (tag === null) return 0
    const wireType = tag.value % 8
    const body = wireType === lengthDelimited ? readVarint(head, tag.end) : null
    if (wireType === lengthDelimited) {
      if (body === null) return 0
      if (body.end + body.value > head.length) return (alignment - (body.end % alignment)) % alignment
      at = body.end + body.value
    } else {
      const end = wireType === varint ? (readVarint(head, tag.end)?.end ?? 0) : tag.end + (fixedBytes[wireType] ?? 0)
      if (end <= tag.end) return 0
      at = end
    }
  }
  return 0
}

const varint = 0
const lengthDelimited = 2
const fixedBytes: Readonly<Record<number, number>> = { 1: 8, 5: 4 }

function readVarint(bytes: Buffer, from: number): { readonly value: number; readonly end: number } | null {
  let value = 0
  for (let i = 0; i < 10 && from + i < bytes.length; i++) {
    const byte = bytes[from + i] as number
    value += (byte & 0x7f) * 2 ** (7 * i)
    if (byte < 0x80) return { value, end: from + i + 1 }
  }
  return null
}
