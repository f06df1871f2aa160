// The head of an HTTP/1.1 request, strictly read: what two programs could read in two ways is refused, because that is
// how one request is smuggled inside another. HOT: once per request whose head differs from the one before it.

import { fieldValue, isBlank } from './http-message.ts'

export type RequestHead = {
  readonly method: string
  readonly target: string
  /** Name, value, name, value… in the client's order and spelling. Blanks behind a value are there: see `fieldValue`. */
  readonly headers: readonly string[]
  /** 0 without a body, -1 for a chunked one, `toldTwice` for one with a length and chunks. */
  readonly bodyBytes: number
  readonly isHttp10: boolean
  readonly keepsAlive: boolean
  readonly expectsContinue: boolean
}

// A method nobody knows is no request; CONNECT asks for a tunnel, which this server does not open.
// A target is a path, the `*` of OPTIONS, or the whole address, as proxies are asked.
const requestLine =
  /^(GET|POST|HEAD|PUT|DELETE|OPTIONS|PATCH|TRACE) (\/[\x21-\x7e\x80-\xff]*|\*|[A-Za-z]+:\/\/[\w.~!$&'()*+,;=:%[\]-]+(?:[/?][\x21-\x7e\x80-\xff]*)?) HTTP\/1\.([01])$/
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const forbiddenInValue = /[^\t\x20-\x7e\x80-\xff]/
const tab = 0x09

/** Where such a body ends depends on who reads it, so the request is answered with an error and the connection closes. */
export const toldTwice = -2

/** What is wrong with the head of a request, in words for its client. Empty: no client of HTTP sends that, so nobody is told. */
export type HeadFault = string

/** The first byte of a client that speaks TLS: no line end need follow. */
const tlsHandshake = 0x16

/** Null: the bytes may still become the head of a request. */
export function halfHeadFault(half: Buffer): HeadFault | null {
  if (half[0] === tlsHandshake) return ''
  const lineEnd = half.indexOf('\n')
  if (lineEnd < 0) return null
  const line = half.toString('latin1', 0, lineEnd)
  return line.endsWith('\r') && requestLine.test(line.slice(0, -1)) ? null : lineFault(line.trimEnd())
}

const isLikeHttp = /^[A-Za-z]+ \/|\bHTTP\/\d/
const mostQuotedCharacters = 100

const lineFault = (line: string): HeadFault =>
  isLikeHttp.test(line)
    ? `the first line of a request reads 'METHOD /path HTTP/1.1' and ends with CR LF; found ${quoted(line)}`
    : ''

const quoted = (text: string): string =>
  text.length > mostQuotedCharacters ? `'${text.slice(0, mostQuotedCharacters)}…'` : `'${text}'`

const trailerLine = /^(?!content-length:|transfer-encoding:)[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*$/i

/** What may stand behind the chunks of a body: headers, but none that say where it ends. */
export const isTrailerLine = (line: string): boolean => trailerLine.test(line)

/** `text` is the head as Latin-1, without the empty line that ends it. A fault when it is no request that can be trusted. */
export function parseRequestHead(text: string): RequestHead | HeadFault {
  const firstEnd = text.indexOf('\r\n')
  const first = firstEnd < 0 ? text : text.slice(0, firstEnd)
  const line = requestLine.exec(first)
  if (line === null) return lineFault(first)
  const headers: string[] = []
  for (let at = firstEnd < 0 ? text.length : firstEnd + 2; at < text.length;) {
    let end = text.indexOf('\r\n', at)
    if (end < 0) end = text.length
    const colon = text.indexOf(':', at)
    if (colon < 0 || colon >= end)
      return `a header has a name, a colon and a value; found ${quoted(text.slice(at, end))}`
    const name = text.slice(at, colon)
    const value = text.slice(valueStart(text, colon + 1, end), end)
    // A name that starts with a space is a folded line of the header before, which nobody may send any more.
    if (!token.test(name)) return `${quoted(name)} cannot be the name of a header`
    if (forbiddenInValue.test(value)) return `the header ${quoted(name)} has a control character in its value`
    // Some programs cut these blanks off and others do not: `chunked` behind them would be read in two ways.
    if (text.charCodeAt(end - 1) === tab && name.toLowerCase() === 'transfer-encoding')
      return 'the header Transfer-Encoding ends with a tab'
    headers.push(name, value)
    at = end + 2
  }
  return judged(line[1] as string, decoded(line[2] as string), line[3] === '0', headers)
}

const beyondAscii = /[\x80-\xff]/

/** Names of models are UTF-8. Header values stay one character per byte: their readers decide what they mean. */
const decoded = (latin1: string): string =>
  beyondAscii.test(latin1) ? Buffer.from(latin1, 'latin1').toString('utf8') : latin1

function valueStart(text: string, start: number, end: number): number {
  while (start < end && isBlank(text.charCodeAt(start))) start++
  return start
}

function judged(
  method: string,
  target: string,
  isHttp10: boolean,
  headers: readonly string[],
): RequestHead | HeadFault {
  let length: number | null = null
  let isChunked = false
  let connection = ''
  let expectsContinue = false
  for (let i = 0; i < headers.length; i += 2) {
    const value = fieldValue(headers[i + 1] as string)
    switch ((headers[i] as string).toLowerCase()) {
      case 'content-length':
        if (length !== null) return 'the header Content-Length stands there twice'
        if (!/^\d{1,15}$/.test(value)) return `Content-Length must be a number of bytes, found ${quoted(value)}`
        length = Number(value)
        break
      case 'transfer-encoding':
        if (isHttp10) return 'a request of HTTP/1.0 cannot have Transfer-Encoding: send Content-Length'
        if (isChunked) return 'the header Transfer-Encoding stands there twice'
        if (value.toLowerCase() !== 'chunked') return `Transfer-Encoding must be 'chunked', found ${quoted(value)}`
        isChunked = true
        break
      // This header was never a standard, but other parsers read it. Closing a connection without need does no harm.
      case 'proxy-connection':
      case 'connection':
        connection += `,${value.toLowerCase()}`
        break
      case 'expect':
        expectsContinue = !isHttp10
        break
      default:
    }
  }
  const bodyBytes = !isChunked ? (length ?? 0) : length === null ? -1 : toldTwice
  const options = connection.split(',').map((option) => option.trim())
  const keepsAlive = isHttp10 ? options.includes('keep-alive') : !options.includes('close')
  return { method, target, headers, bodyBytes, isHttp10, keepsAlive, expectsContinue }
}
