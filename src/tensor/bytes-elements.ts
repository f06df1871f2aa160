// Elements of a BYTES tensor: four bytes of length (little-endian), then the bytes, one after the other.

import { ServerError } from '../base/server-error.ts'

const prefixBytes = 4

/** One buffer with all elements; strings are written as UTF-8. */
export function encodeBytesElements(elements: readonly (string | Uint8Array)[]): Uint8Array {
  let length = 0
  for (const element of elements) {
    length += prefixBytes + (typeof element === 'string' ? Buffer.byteLength(element) : element.length)
  }
  const bytes = Buffer.allocUnsafe(length)
  let offset = 0
  for (const element of elements) {
    const start = offset + prefixBytes
    let size: number
    if (typeof element === 'string') {
      size = bytes.write(element, start)
    } else {
      bytes.set(element, start)
      size = element.length
    }
    bytes.writeUInt32LE(size, offset)
    offset = start + size
  }
  return bytes
}

/** The elements, as views. Throws when the last one is cut off. */
export function parseBytesElements(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: Uint8Array[] = []
  let offset = 0
  while (offset < bytes.length) {
    const available = bytes.length - offset
    if (available < prefixBytes) {
      throw new ServerError(
        'INVALID_ARG',
        `incomplete string length indicator, expecting ${prefixBytes} bytes but only ${available} bytes available`,
      )
    }
    const size = view.getUint32(offset, true)
    const start = offset + prefixBytes
    if (size > bytes.length - start) {
      throw new ServerError(
        'INVALID_ARG',
        `incomplete string data, expecting string of length ${size} but only ${bytes.length - start} bytes available`,
      )
    }
    offset = start + size
    elements.push(bytes.subarray(start, offset))
  }
  return elements
}
