// A look at a long line without JSON.parse, which would hold the event loop for as long as the line is long: how it is nested, and the texts
// of some of its members. What is wrong with the rest is found by whoever reads the line, in a thread.

import { deepestJson, tooDeepJson, tooManyContainers } from '../base/json-form.ts'

const [quote, backslash, colon, comma] = [0x22, 0x5c, 0x3a, 0x2c]
const [listStart, listEnd, objectStart, objectEnd] = [0x5b, 0x5d, 0x7b, 0x7d]
/** Bytes and quotes that are looked at in one step: well below a millisecond. */
const stepLooks = 64 * 1024
/** A name or an id that is longer is none. */
const longestText = 64 * 1024

/** Text says why the line is not read. Else the members of `wanted` that the object has, by name; null for a value that is no text. */
export function* scanLine(
  line: Buffer,
  mostContainers: number,
  wanted: readonly string[],
): Generator<void, ReadonlyMap<string, string | null> | string> {
  const found = new Map<string, string | null>()
  let [depth, count, looks] = [0, 0, 0]
  let key: string | null = null
  let isValue = false
  let textStart = -1
  for (let i = 0; i < line.length; i++) {
    if (++looks % stepLooks === 0) yield
    const byte = line[i]
    if (textStart >= 0) {
      i = line.indexOf(quote, i)
      if (i < 0) break
      if (isEscaped(line, i)) continue
      if (depth === 1) {
        const text = textOf(line, textStart, i + 1)
        if (!isValue) key = text
        else if (key !== null && wanted.includes(key)) {
          if (text === null) return `'${key}' has more than ${longestText} bytes, or is no text`
          found.set(key, text)
        }
      }
      textStart = -1
    } else if (byte === quote) textStart = i
    else if (byte === listStart || byte === objectStart) {
      if (depth === 0 && byte === listStart) return 'it must be a JSON object'
      if (++count > mostContainers) return tooManyContainers(mostContainers)
      if (++depth > deepestJson) return tooDeepJson
    } else if (byte === listEnd || byte === objectEnd) depth--
    else if (depth === 1 && byte === colon) {
      isValue = true
      if (key !== null && wanted.includes(key)) found.set(key, null)
    } else if (depth === 1 && byte === comma) isValue = false
    else if (depth === 0 && byte !== undefined && byte > 0x20) return 'it must be a JSON object'
  }
  return count === 0 ? 'it must be a JSON object' : found
}

/** Whether an odd number of backslashes stands before the quote. */
function isEscaped(line: Buffer, at: number): boolean {
  let before = at
  while (line[before - 1] === backslash) before--
  return (at - before) % 2 === 1
}

/** Null: it is too long, or no text of JSON. */
function textOf(line: Buffer, start: number, end: number): string | null {
  if (end - start > longestText) return null
  try {
    return JSON.parse(line.toString('utf8', start, end)) as string
  } catch {
    return null
  }
}
