// A JSON value for an error text, as RapidJSON's pretty writer prints it with lists on one line. It is indented by four for each
// object and list around it, and ends where 256 bytes are written or a number has no form in JSON.

import type { JsonNode } from './json-document.ts'
import { maxNumberBytes, writeDouble } from './json-number-writer.ts'
import type { JsonScalar } from './json-scanner.ts'
import { JsonTextWriter } from './json-text-writer.ts'

const longestText = 256

export function jsonDebugText(node: JsonNode): string {
  const writer = new JsonTextWriter()
  writeNode(writer, node, '', '')
  return writer.finish().toString()
}

/** What stands between a value and the one before it counts as a part of the value. False: nothing more is written. */
function writeNode(writer: JsonTextWriter, node: JsonNode, between: string, indent: string): boolean {
  if (!writePiece(writer, between)) return false
  const inner = `${indent}    `
  if (Array.isArray(node)) {
    writer.raw('[')
    return node.every((element, i) => writeNode(writer, element, i > 0 ? ', ' : '', inner)) && writePiece(writer, ']')
  }
  if (!(node instanceof Map)) return writeScalar(writer, node as JsonScalar)
  writer.raw('{')
  let comma = ''
  for (const [name, member] of node) {
    if (!writePiece(writer, `${comma}\n${inner}`)) return false
    writer.string(shown(name))
    if (!writeNode(writer, member, ': ', inner)) return false
    comma = ','
  }
  return writePiece(writer, comma === '' ? '}' : `\n${indent}}`)
}

function writePiece(writer: JsonTextWriter, text: string): boolean {
  if (writer.length >= longestText) return false
  writer.raw(text)
  return true
}

function writeScalar(writer: JsonTextWriter, value: JsonScalar): boolean {
  if (typeof value === 'string') writer.string(shown(value))
  else if (typeof value !== 'number') writer.raw(String(value))
  else if (Number.isFinite(value)) {
    writer.reserve(maxNumberBytes)
    writer.length = writeDouble(writer.bytes, writer.length, value)
  } else return false
  return true
}

/** A text may have megabytes, and a message shows its beginning. */
const shown = (text: string): string => text.slice(0, longestText)

/** As RapidJSON names the types of values. */
export function jsonTypeName(node: JsonNode): string {
  if (node === null) return 'Null'
  if (Array.isArray(node)) return 'Array'
  if (node instanceof Map) return 'Object'
  if (typeof node === 'boolean') return node ? 'True' : 'False'
  return typeof node === 'string' ? 'String' : 'Number'
}
