/** Bytes that are copied in one step: about a millisecond into fresh memory. */
const stepBytes = 2 * 1024 * 1024

/** One element of type BYTES, which starts with its length. One copy. */
export function bytesElement(parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  const bytes = Buffer.allocUnsafe(4 + length)
  let at = bytes.writeUInt32LE(length, 0)
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

/** Elements of type BYTES that may be large, each made of its parts. One copy, in steps. */
export function* bytesElementsInSteps(elements: readonly (readonly Uint8Array[])[]): Generator<void, Buffer> {
  const lengths = elements.map((parts) => parts.reduce((sum, part) => sum + part.length, 0))
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + 4 + length, 0))
  let at = 0
  let stepEnd = stepBytes
  for (const [index, parts] of elements.entries()) {
    at = bytes.writeUInt32LE(lengths[index] as number, at)
    for (const part of parts) {
      for (let from = 0; from < part.length; from += stepBytes) {
        const piece = part.subarray(from, from + stepBytes)
        bytes.set(piece, at)
        at += piece.length
        if (at < stepEnd) continue
        stepEnd = at + stepBytes
        yield
      }
    }
  }
  return bytes
}
