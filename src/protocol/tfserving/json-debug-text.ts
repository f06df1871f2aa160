// A JSON value as TensorFlow Serving repeats it in an error: indented objects, lists on one line, cut after 256 bytes.

import { memberOf, type JsonNode } from '../json-document.ts'

const longestText = 256

export function jsonDebugText(node: JsonNode): string {
  let text = ''
  const write = (piece: string): boolean => {
    if (text.length >= longestText) return false
    text += piece
    return true
  }
  const print = (value: JsonNode, indent: string): boolean => {
    if (Array.isArray(value)) {
      let isFirst = true
      if (!write('[')) return false
      for (const element of value) {
        if (!isFirst) text += ', '
        isFirst = false
        if (!print(element, indent)) return false
      }
      return write(']')
    }
    if (value instanceof Map) {
      const inner = `${indent}    `
      let isFirst = true
      if (!write('{')) return false
      for (const [key, member] of value) {
        if (
          !write(`${isFirst ? '' : ','}\n${inner}${JSON.stringify(key.slice(0, longestText))}: `) ||
          !print(member, inner)
        )
          return false
        isFirst = false
      }
      return write(isFirst ? '}' : `\n${indent}}`)
    }
    // A text may have megabytes, and a message shows its beginning.
    return write(typeof value === 'string' ? JSON.stringify(value.slice(0, longestText)) : String(value as boolean))
  }
  print(node, '')
  return text
}

/** As RapidJSON names the types of values. */
export function jsonTypeName(node: JsonNode): string {
  if (node === null) return 'Null'
  if (Array.isArray(node)) return 'Array'
  if (node instanceof Map) return 'Object'
  if (typeof node === 'boolean') return node ? 'True' : 'False'
  return typeof node === 'string' ? 'String' : 'Number'
}

/** `{"b64": "…"}` and no other member. */
export function isB64Object(node: JsonNode): boolean {
  return node instanceof Map && node.size === 1 && typeof memberOf(node, 'b64') === 'string'
}
