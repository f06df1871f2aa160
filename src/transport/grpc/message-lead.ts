// How far from the start of its memory a message is to begin, so that its tensor lies at an address that models can read from. Without
// this the tensor is copied once more.

/** What the widest data type and vector instructions want. */
const alignment = 64

/** So much of a message is looked at: names, shapes and parameters before the tensor. A message may have millions of small fields. */
const lookedAtBytes = 4096

/**
 * `bytes` is the beginning of a message of Protocol Buffers. The first field that goes on beyond what is looked at is taken for the tensor; 0
 * where there is none, or where the bytes are something else.
 */
export function leadOf(bytes: Buffer): number {
  const head = bytes.subarray(0, lookedAtBytes)
  for (let at = 0; at < head.length;) {
    const field = fieldAt(head, at)
    if (field === null) return 0
    if (field.end > head.length) return (alignment - (field.start % alignment)) % alignment
    at = field.end
  }
  return 0
}

const lengthDelimited = 2
const fixedBytes: Readonly<Record<number, number>> = { 1: 8, 5: 4 }

/** Where the value of the field begins and ends; null where that cannot be known. */
function fieldAt(head: Buffer, at: number): { readonly start: number; readonly end: number } | null {
  const tag = readVarint(head, at)
  if (tag === null) return null
  const wireType = tag.value % 8
  const fixed = fixedBytes[wireType]
  if (fixed !== undefined) return { start: tag.end, end: tag.end + fixed }
  const number = wireType === 0 || wireType === lengthDelimited ? readVarint(head, tag.end) : null
  if (number === null) return null
  return { start: number.end, end: wireType === 0 ? number.end : number.end + number.value }
}

function readVarint(bytes: Buffer, from: number): { readonly value: number; readonly end: number } | null {
  let value = 0
  for (let i = 0; i < 10 && from + i < bytes.length; i++) {
    const byte = bytes[from + i] as number
    value += (byte & 0x7f) * 2 ** (7 * i)
    if (byte < 0x80) return { value, end: from + i + 1 }
  }
  return null
}
