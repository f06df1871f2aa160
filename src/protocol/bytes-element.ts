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
