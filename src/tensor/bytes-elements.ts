// Elements of a BYTES tensor: four bytes of length (little-endian), then the bytes, one after the other. Web globals only:
// the SDK uses it in browsers too.

const prefixBytes = 4
const encoder = new TextEncoder()

/** All elements in memory of their own; strings are written as UTF-8. */
export function encodeBytesElements(elements: readonly (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  const encoded = elements.map((element) => (typeof element === 'string' ? encoder.encode(element) : element))
  const bytes = new Uint8Array(encoded.reduce((sum, element) => sum + prefixBytes + element.length, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const element of encoded) {
    view.setUint32(at, element.length, true)
    bytes.set(element, at + prefixBytes)
    at += prefixBytes + element.length
  }
  return bytes
}

/** The first `most` elements, as views. Throws what `cutShort` makes for the index of an element that reaches past the end. */
export function splitBytesElements(
  bytes: Uint8Array,
  cutShort: (index: number) => Error,
  most = Infinity,
): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: Uint8Array[] = []
  let at = 0
  while (at < bytes.length && elements.length < most) {
    const start = at + prefixBytes
    const end = start > bytes.length ? Infinity : start + view.getUint32(at, true)
    if (end > bytes.length) throw cutShort(elements.length)
    elements.push(bytes.subarray(start, end))
    at = end
  }
  return elements
}
