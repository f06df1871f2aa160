import { ServerError } from '../base/server-error.ts'
import { unescapeJsonString } from './json-string-escape.ts'
import { char, type JsonScanner } from './json-scanner.ts'
import { jsonInputTooLarge } from './tensor-data-problem.ts'

const prefixBytes = 4

/**
 * Reads the strings of a `data` array as BYTES elements: length and bytes. Returns them, or the error of the first
 * element that is no string (the position is then undefined). Malformed JSON is thrown.
 */
export function readStrings(scanner: JsonScanner, name: string, maxBytes: number): Uint8Array | ServerError | 'type' {
  let bytes = Buffer.allocUnsafe(256)
  let length = 0
  let depth = 0
  for (;;) {
    const c = scanner.peek()
    if (c === char.leftBracket) {
      if (scanner.nextElement(true)) {
        depth++
        continue
      }
    } else if (c === char.quote) {
      scanner.scanString()
      const { stringStart, stringEnd } = scanner
      const needed = length + prefixBytes + (stringEnd - stringStart)
      if (needed > bytes.length) bytes = enlarged(bytes, length, needed)
      const start = length + prefixBytes
      let end: number
      if (scanner.hasEscapes) end = unescapeJsonString(scanner.bytes, stringStart, stringEnd, bytes, start)
      else end = start + scanner.bytes.copy(bytes, start, stringStart, stringEnd)
      bytes.writeUInt32LE(end - start, length)
      length = end
      if (length > maxBytes) return jsonInputTooLarge(name, length, maxBytes)
    } else {
      return 'type'
    }
    for (;;) {
      if (depth === 0) return bytes.subarray(0, length)
      if (scanner.nextElement(false)) break
      depth--
    }
  }
}

function enlarged(bytes: Buffer<ArrayBuffer>, length: number, needed: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, bytes.length * 2))
  bytes.copy(larger, 0, 0, length)
  return larger
}
