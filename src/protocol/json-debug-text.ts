// A JSON value for an error text, as RapidJSON's pretty writer prints it with lists on one line. It is indented by four for each
// object and list around it, and ends where 256 bytes are written or a number has no form in JSON.

import type { JsonNode } from './json-document.ts'
import { maxNumberBytes, writeDouble } from './json-number-writer.ts'
import { char, JsonScanner, type JsonScalar } from './json-scanner.ts'
import { JsonTextWriter } from './json-text-writer.ts'

const longestText = 256

/** Of the value that begins at `start`, which is well formed. Reads no further than it writes. */
export function jsonDebugText(bytes: Buffer, start: number): string {
  const scanner = new JsonScanner(bytes)
  scanner.position = start
  const writer = new JsonTextWriter()
  writeValue(writer, scanner, '', '')
  return writer.finish().toString()
}

/** What stands between a value and the one before it counts as a part of the value. False: nothing more is written. */
function writeValue(writer: JsonTextWriter, scanner: JsonScanner, between: string, indent: string): boolean {
  if (!writePiece(writer, between)) return false
  const first = scanner.peek()
  if (first === char.leftBracket) return writeList(writer, scanner, `${indent}    `)
  if (first === char.leftBrace) return writeObject(writer, scanner, indent)
  return writeScalar(writer, scanner.readValue() as JsonScalar)
}

function writeList(writer: JsonTextWriter, scanner: JsonScanner, inner: string): boolean {
  writer.raw('[')
  let comma = ''
  for (let isElement = scanner.nextElement(true); isElement; isElement = scanner.nextElement(false)) {
    if (!writeValue(writer, scanner, comma, inner)) return false
    comma = ', '
  }
  return writePiece(writer, ']')
}

function writeObject(writer: JsonTextWriter, scanner: JsonScanner, indent: string): boolean {
  const inner = `${indent}    `
  writer.raw('{')
  let comma = ''
  for (let isMember = scanner.nextMember(true); isMember; isMember = scanner.nextMember(false)) {
    if (!writePiece(writer, `${comma}\n${inner}`)) return false
    writer.string(shown(scanner.stringValue()))
    if (!writeValue(writer, scanner, ': ', inner)) return false
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

const namesByFirst: Readonly<Record<string, string>> = {
  '{': 'Object',
  '[': 'Array',
  '"': 'String',
  t: 'True',
  f: 'False',
  n: 'Null',
}

/** The same of the value that begins at `start`. */
export const jsonTypeNameAt = (bytes: Buffer, start: number): string =>
  namesByFirst[String.fromCharCode(bytes[start] ?? 0)] ?? 'Number'
