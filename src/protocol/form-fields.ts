// The fields of a form, as browsers, curl and Python's requests send them: multipart/form-data, or urlencoded.

import { percentDecoded } from '../base/percent-decoded.ts'
import { ServerError } from '../base/server-error.ts'

type FormField = {
  readonly name: string
  /** '' where the part does not say. */
  readonly contentType: string
  readonly value: Buffer
  readonly fileName: string
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
    if (body.toString('latin1', at, at + 2) !== '\r\n') throw malformed('a boundary is not at the end of its line')
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
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon === 'content-type'.length && line.slice(0, colon).toLowerCase() === 'content-type') {
      contentType = line.slice(colon + 1).trim()
    } else if (colon === 'content-disposition'.length && line.slice(0, colon).toLowerCase() === 'content-disposition') {
      disposition = line.slice(colon + 1)
    }
  }
  const name = parameterOf(disposition, 'name')
  if (name === null) throw malformed('a part has no name')
  return { name, contentType, value, fileName: parameterOf(disposition, 'filename') ?? '' }
}

/** The value of `; name="value"` or `; name=value`. */
function parameterOf(disposition: string, key: string): string | null {
  const at = new RegExp(`;[ \\t]*${key}=`, 'i').exec(disposition)
  if (at === null) return null
  const rest = disposition.slice(at.index + at[0].length)
  if (!rest.startsWith('"')) return rest.split(';', 1)[0]?.trim() ?? null
  const end = rest.indexOf('"', 1)
  return end < 0 ? null : rest.slice(1, end)
}

function readUrlencoded(body: Buffer): FormField[] {
  if (body.length > mostUrlencodedBytes)
    throw malformed(`it has more than ${mostUrlencodedBytes} bytes: send multipart`)
  const fields: FormField[] = []
  for (const pair of body.toString('latin1').split('&', mostFormFields + 1)) {
    if (fields.length === mostFormFields) throw malformed(`it has more than ${mostFormFields} fields`)
    const equals = pair.indexOf('=')
    if (equals <= 0) continue
    const value = Buffer.from(decoded(pair.slice(equals + 1)))
    fields.push({ name: decoded(pair.slice(0, equals)), contentType: '', value, fileName: '' })
  }
  return fields
}

function decoded(text: string): string {
  const plain = percentDecoded(text.replaceAll('+', ' '))
  if (plain === null) throw malformed(`'${text.slice(0, 40)}' is not percent-encoded UTF-8`)
  return plain
}

const malformed = (reason: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `the form in the request's body cannot be read: ${reason}`)
