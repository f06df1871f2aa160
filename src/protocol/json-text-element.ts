// An element of a BYTES tensor out of JSON: a string, or the string of `{"b64": "…"}` for bytes that are no text.

import type { JsonScanner } from './json-scanner.ts'
import { unescapeJsonString } from './json-string-escape.ts'
import type { JsonTextWriter } from './json-text-writer.ts'

/** In front of each element of a BYTES tensor. */
const lengthBytes = 4

/** White space is passed over, a dot pads as `=` does, and the padding may be left out. */
export function isBase64(text: string): boolean {
  const [, digits = '', padding] = /^([\w+/-]*)([=.]{0,2})$/.exec(text.replaceAll(/\s/g, '')) ?? []
  if (padding === undefined) return false
  const rest = digits.length % 4
  return rest !== 1 && (padding === '' || padding.length === (4 - rest) % 4)
}

/** Appends the string that the scanner has passed, with its length before it. False: it is to be base64 and is not. HOT. */
export function appendTextElement(scanner: JsonScanner, target: JsonTextWriter, isEncoded: boolean): boolean {
  const { bytes, stringStart, stringEnd } = scanner
  target.reserve(lengthBytes + stringEnd - stringStart)
  const start = target.length + lengthBytes
  let end = scanner.hasEscapes
    ? unescapeJsonString(bytes, stringStart, stringEnd, target.bytes, start)
    : start + bytes.copy(target.bytes, start, stringStart, stringEnd)
  if (isEncoded) {
    const text = target.bytes.toString('latin1', start, end)
    if (!isBase64(text)) return false
    end = start + target.bytes.write(text, start, 'base64')
  }
  target.bytes.writeUInt32LE(end - start, target.length)
  target.length = end
  return true
}
