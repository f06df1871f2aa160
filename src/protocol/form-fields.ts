// The fields of a form, as browsers, curl and Python's requests send them: multipart/form-data, or urlencoded.

import { percentDecoded } from '../base/percent-decoded.ts'
import { ServerError } from '../base/server-error.ts'

export type FormField = {
  readonly name: string
  /** '' where the part does not say. */
  readonly contentType: string
  readonly value: Buffer
  /** Null: the part is no file. '' comes from a browser in which no file was chosen, and from programs that have no name for theirs. */
  readonly fileName: string | null
}

/** More fields than a form has that a person or a program fills. */
const mostFormFields = 1000
const mostPartHeadBytes = 2048
/** A urlencoded form is decoded character by character; files come as multipart. */
const mostUrlencodedBytes = 1024 * 1024
/** Searched in one step. A short boundary in a body full of its beginnings costs 6 ns for each byte: 0.4 s for 60 MB. */
const searchBytes = 256 * 1024

/** In steps, for `runInSlices`. Null for a body that is no form. Values are views on the body. Throws INVALID_ARG. */
export function* formFields(body: Buffer, contentType: string): Generator<void, FormField[] | null> {
  const type = (contentType.split(';', 1)[0] ?? '').trim().toLowerCase()
  if (type === 'application/x-www-form-urlencoded') return readUrlencoded(body)
  if (!type.startsWith('multipart/form-data')) return null
  const boundary = /;\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))/i.exec(contentType)
  if (boundary === null) throw malformed('its Content-Type names no boundary')
  return yield* readMultipart(body, boundary[1] ?? boundary[2] ?? '')
}

function* readMultipart(body: Buffer, boundary: string): Generator<void, FormField[]> {
  const line = Buffer.from(`--${boundary}`)
  const separator = Buffer.from(`\r\n--${boundary}`)
  const fields: FormField[] = []
  let at = yield* placeOf(body, line, 0)
  if (at < 0) throw malformed('it has no part that begins with its boundary')
  at += line.length
  // `--` after a boundary ends the form.
  while (body.toString('latin1', at, at + 2) !== '--') {
    at = endOfLine(body, at)
    const window = body.subarray(at, at + mostPartHeadBytes)
    const headEnd = window.indexOf('\r\n\r\n')
    if (headEnd < 0) throw malformed(`the head of a part is longer than ${mostPartHeadBytes} bytes, or has no end`)
    const start = at + headEnd + 4
    const end = yield* placeOf(body, separator, start - 2)
    if (end < 0) throw malformed('its last boundary is missing')
    fields.push(readPart(window.toString('utf8', 0, headEnd), body.subarray(start, Math.max(start, end))))
    if (fields.length > mostFormFields) throw malformed(`it has more than ${mostFormFields} fields`)
    at = end + separator.length
  }
  return fields
}

/** Blanks may stand between a boundary and the end of its line. */
function endOfLine(body: Buffer, from: number): number {
  let at = from
  while ((body[at] === 0x20 || body[at] === 0x09) && at < from + mostPartHeadBytes) at++
  if (body[at] === 0x0a) throw malformed('its lines end with LF, expected CR LF')
  if (body.toString('latin1', at, at + 2) !== '\r\n') throw malformed('a boundary is not at the end of its line')
  return at
}

/** Where the bytes stand; -1: nowhere. */
function* placeOf(body: Buffer, wanted: Buffer, from: number): Generator<void, number> {
  for (let at = from; at < body.length; at += searchBytes) {
    const found = body.subarray(at, at + searchBytes + wanted.length - 1).indexOf(wanted)
    if (found >= 0) return at + found
    yield
  }
  return -1
}

/** A form may have a thousand heads, so each line is looked at once. */
function readPart(head: string, value: Buffer): FormField {
  let contentType = ''
  let disposition = ''
  // A line that begins with a blank goes on with the one before it, as Python's email writes long ones.
  for (const line of head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon === 'content-type'.length && line.slice(0, colon).toLowerCase() === 'content-type') {
      contentType = line.slice(colon + 1).trim()
    } else if (colon === 'content-disposition'.length && line.slice(0, colon).toLowerCase() === 'content-disposition') {
      disposition = line.slice(colon + 1)
    }
  }
  const parameters = parametersOf(disposition)
  const name = parameters.get('name') ?? null
  if (name === null) throw malformed('a part has no name')
  return { name, contentType, value, fileName: parameters.get('filename') ?? null }
}

/**
 * `; name="value"`, or without quotes. Browsers, curl and Python write a quote and the end of a line in a value as `%22`, `%0D` and `%0A`; other
 * programs write a quote as `\"`, and leave other backslashes as they are or double them.
 */
const parameterForm = /;[ \t]*([^=;"\s]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;"]+))/g

/** Values by their names in small letters. Where one comes a second time as `name*=UTF-8''value`, that one counts. */
function parametersOf(disposition: string): Map<string, string> {
  const values = new Map<string, string>()
  for (const [, key = '', quoted, plain = ''] of disposition.matchAll(parameterForm)) {
    const name = key.toLowerCase()
    const unescaped = quoted?.replaceAll(/\\(["\\])/g, '$1').replaceAll(/%(?:22|0D|0A)/gi, decodeURIComponent)
    const value = unescaped ?? plain.trim()
    const encoded = name.endsWith('*') ? /^utf-8'[^']*'(.*)$/is.exec(value)?.[1] : undefined
    const decoded = encoded === undefined ? null : percentDecoded(encoded)
    if (decoded !== null) values.set(name.slice(0, -1), decoded)
    else if (!values.has(name)) values.set(name, value)
  }
  return values
}

function readUrlencoded(body: Buffer): FormField[] {
  if (body.length > mostUrlencodedBytes)
    throw malformed(`it has more than ${mostUrlencodedBytes} bytes: send multipart`)
  const fields: FormField[] = []
  for (const pair of body.toString('latin1').split('&', mostFormFields + 1)) {
    if (fields.length === mostFormFields) throw malformed(`it has more than ${mostFormFields} fields`)
    const equals = pair.indexOf('=')
    if (equals <= 0) continue
    const value = decodedBytes(pair.slice(equals + 1))
    fields.push({ name: decoded(pair.slice(0, equals)), contentType: '', value, fileName: null })
  }
  return fields
}

function decoded(text: string): string {
  const plain = percentDecoded(text.replaceAll('+', ' '))
  if (plain === null) throw malformed(`'${text.slice(0, 40)}' is not percent-encoded UTF-8`)
  return plain
}

/** A value may be any bytes: programs send pictures so, too. */
function decodedBytes(text: string): Buffer {
  if (/%(?![\da-f]{2})/i.test(text)) throw malformed(`'${text.slice(0, 40)}' is not percent-encoded`)
  const bytes = Buffer.from(text, 'latin1')
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number
    if (byte === percentSign) bytes[length++] = Number.parseInt(text.slice(at + 1, (at += 2) + 1), 16)
    else bytes[length++] = byte === plusSign ? blank : byte
  }
  return bytes.subarray(0, length)
}

const blank = 0x20
const percentSign = 0x25
const plusSign = 0x2b

const malformed = (reason: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `the form in the request's body cannot be read: ${reason}`)
