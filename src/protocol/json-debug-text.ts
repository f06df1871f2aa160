// A JSON value for an error text, as RapidJSON's pretty writer prints it with lists on one line: indented by four, and cut after 256
// characters.

import type { JsonNode } from './json-document.ts'

const longestText = 256

export function jsonDebugText(node: JsonNode): string {
  let text = ''
  for (const piece of piecesOf(node, '')) {
    // A comma of a list comes in any case.
    if (text.length >= longestText && piece !== ', ') break
    text += piece
  }
  return text
}

function* piecesOf(value: JsonNode, indent: string): Generator<string, void> {
  if (Array.isArray(value)) {
    yield '['
    for (const [i, element] of value.entries()) {
      if (i > 0) yield ', '
      yield* piecesOf(element, indent)
    }
    yield ']'
  } else if (value instanceof Map) {
    const inner = `${indent}    `
    yield '{'
    let comma = ''
    for (const [key, member] of value) {
      yield `${comma}\n${inner}${shown(key)}: `
      yield* piecesOf(member, inner)
      comma = ','
    }
    yield comma === '' ? '}' : `\n${indent}}`
  } else yield typeof value === 'string' ? shown(value) : String(value as boolean)
}

/** A text may have megabytes, and a message shows its beginning. */
const shown = (text: string): string => JSON.stringify(text.slice(0, longestText))

/** As RapidJSON names the types of values. */
export function jsonTypeName(node: JsonNode): string {
  if (node === null) return 'Null'
  if (Array.isArray(node)) return 'Array'
  if (node instanceof Map) return 'Object'
  if (typeof node === 'boolean') return node ? 'True' : 'False'
  return typeof node === 'string' ? 'String' : 'Number'
}
