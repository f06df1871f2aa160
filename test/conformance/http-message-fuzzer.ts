// Requests as bytes, right ones and wrong ones: built from pieces that matter to framing, then spoiled in places.

import { Random } from '../scenario/random.ts'

const methods = [
  'GET',
  'POST',
  'POST',
  'POST',
  'PUT',
  'HEAD',
  'DELETE',
  'OPTIONS',
  'PATCH',
  'TRACE',
  'CONNECT',
  'get',
  'POSTX',
  'PRI',
  'G T',
  '',
]
const targets = ['/', '/v2', '/v2/models/a/infer', '/a?b=c#d', '/a#b#c?d', '/a?b?c##', '*a', 'http://u@h/p', 'http://a@b@c/', 'http://', 'http://h#f', 'http://h?q', 'https://[::1]:8/p', 'x-y://h/p', 'http://h/é', '*', 'http://h/p', 'http://h:80/p?q', 'a', '/é', '/a b', '', '//x', '/%00', '/"<>', '/\t', 'h:80', 'http:/', '/\x7f', '/a\\b', '/[]{}|^`'] // prettier-ignore
const versions = ['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/0.9', 'http/1.1', 'HTTP/1.1 ', 'HTTP/01.1', 'HTTP/1', 'ICE/1.0', 'RTSP/1.0', ''] // prettier-ignore
const lineEnds = ['\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\n', '\r', '\r\r\n', '\n\r\n'] // prettier-ignore
const plainHeaders = ['Host: a', 'Accept: */*', 'X-A: b', 'x: y', 'User-Agent: z', 'X-Empty:', 'X-Blank:   ', 'X-Tab:\tv\t', 'X-High: \xe9', 'Cookie: a=b; c=d', 'Content-Type: application/json'] // prettier-ignore
const oddHeaders = [' folded', '\tfolded', 'no colon', ': no name', 'X A: b', 'X-A : b', 'X-A\t: b', 'X\x00: b', 'X: a\x00b', 'X: a\x01', 'X: a\x7f', 'X: a\rb', 'X\xe9: a', '"X": a', 'X(: a', 'X: a\x0bb', 'Content-Length', 'Transfer-Encoding'] // prettier-ignore
const connections = ['Connection: close', 'Connection: keep-alive', 'Connection: Close, x', 'Connection: upgrade', 'Upgrade: h2c', 'Proxy-Connection: close', 'Expect: 100-continue', 'Expect: x', 'Connection: keep-alive, close'] // prettier-ignore
const lengths = ['0', '1', '3', '5', '05', '+5', '-5', ' 5', '5 ', '5,5', '5, 5', '0x5', '5a', '', '1e1', '5.0', '99999999999999999999', '18446744073709551616', '4294967296', '5\t', '\v5', '٥', '5;', '00'] // prettier-ignore
const lengthNames = ['Content-Length', 'content-length', 'Content-length', 'Content-Length ', ' Content-Length', 'Content_Length', 'Content-Length\x00', 'Content-Lengt\x68'] // prettier-ignore
const encodings = ['chunked', 'chunked', 'chunked', 'Chunked', 'CHUNKED', 'identity', 'gzip', 'gzip, chunked', 'chunked, gzip', 'chunked, chunked', 'chunked,', ', chunked', ' chunked', 'chunked ', 'xchunked', 'chunked\x00', 'chunked;q=1', '', '"chunked"', 'chun\tked'] // prettier-ignore
const encodingNames = ['Transfer-Encoding', 'transfer-encoding', 'Transfer-Encoding ', 'Transfer_Encoding', 'TE', 'Transfer-Encoding\t', 'transfer-Encoding'] // prettier-ignore
const sizes = ['0', '1', '3', '5', '05', '00000000005', '0x5', '5 ', '5\t', ' 5', '-5', '+5', 'G', '', 'a', 'A', 'ffffffff', 'fffffffffffffffff', '5 5', '5h'] // prettier-ignore
const extensions = ['', '', '', '', '', '', ';a', ';a=b', '; a=b', ';a ="b"', ';a="b;c"', ';', ';;', ';a="b', ';\x00', ';a=\r', ';a=b\rc', ';\xe9', ';a=b c', ';a="\\""', ';a="\\', ';=b', ';a='] // prettier-ignore
const trailers = ['', '', '', '', 'X-T: a\r\n', 'bad\r\n', 'X T: a\r\n', ' fold\r\n', 'Content-Length: 5\r\n', 'X: a\nY: b\r\n', 'Transfer-Encoding: chunked\r\n', 'X: \x00\r\n', ': a\r\n', 'X: a\rb\r\n'] // prettier-ignore
const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n'

/** The bytes of one connection. The same seed and number give the same bytes. */
export function generateConnection(seed: number, number: number): { readonly bytes: Buffer; readonly random: Random } {
  const random = new Random(seed, number)
  const count = 1 + random.int(3)
  let text = random.oneIn(30) ? random.pick(['\r\n', '\n', '\r', '\r\n\r\n', ' ', '\x00']) : ''
  for (let i = 0; i < count; i++) text += message(random)
  if (random.oneIn(3)) text = spoiled(text, random)
  return { bytes: Buffer.from(text, 'latin1'), random }
}

/** The same bytes as a network may deliver them. */
export function cutIntoPieces(bytes: Buffer, random: Random): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length;) {
    const end = Math.min(bytes.length, at + 1 + random.int(random.oneIn(2) ? 4 : 60))
    pieces.push(bytes.subarray(at, end))
    at = end
  }
  return pieces
}

function message(random: Random): string {
  const isOdd = random.oneIn(4)
  const end = (): string => (isOdd && random.oneIn(6) ? random.pick(lineEnds) : '\r\n')
  const lines = [startLine(random, isOdd)]
  const add = (list: readonly string[], most: number): void => {
    for (let i = random.int(most + 1); i > 0; i--) lines.push(random.pick(list))
  }
  add(plainHeaders, 2)
  if (isOdd && random.oneIn(3)) lines.push(random.pick(oddHeaders))
  if (random.oneIn(5)) lines.push(random.pick(connections))
  const body = framing(random, lines, isOdd)
  add(plainHeaders, 1)
  return lines.map((line) => line + end()).join('') + end() + body
}

function startLine(random: Random, isOdd: boolean): string {
  if (!isOdd) return `${random.pick(['GET', 'POST', 'PUT', 'HEAD'])} ${random.pick(['/', '/v2', '/a?b=c'])} HTTP/1.1`
  const gap = random.oneIn(20) ? random.pick(['  ', '\t', '']) : ' '
  return `${random.pick(methods)}${gap}${random.pick(targets)} ${random.pick(versions)}`
}

/** Adds headers that say where the message ends, rightly or not, and gives what may be its body. */
function framing(random: Random, lines: string[], isOdd: boolean): string {
  const kind = random.int(10)
  if (kind < 3) return ''
  if (kind < 6) {
    const body = random.pick(['', 'x', 'abc', 'hello', smuggled])
    lines.push(`${isOdd ? random.pick(lengthNames) : 'Content-Length'}: ${isOdd ? random.pick(lengths) : body.length}`)
    return body
  }
  if (kind < 9) {
    lines.push(
      `${isOdd ? random.pick(encodingNames) : 'Transfer-Encoding'}: ${isOdd ? random.pick(encodings) : 'chunked'}`,
    )
    return chunks(random, isOdd)
  }
  // Two ways to say it: at most one may be believed.
  lines.push(`Content-Length: ${random.pick(lengths)}`)
  lines.push(
    random.oneIn(2) ? `Content-Length: ${random.pick(lengths)}` : `Transfer-Encoding: ${random.pick(encodings)}`,
  )
  if (random.oneIn(2)) lines.reverse()
  return random.oneIn(2) ? chunks(random, isOdd) : random.pick(['hello', smuggled])
}

function chunks(random: Random, isOdd: boolean): string {
  let text = ''
  for (let i = random.int(3); i > 0; i--) {
    const data = random.pick(['x', 'abc', 'hello', smuggled])
    const size = isOdd && random.oneIn(4) ? random.pick(sizes) : data.length.toString(16)
    const end = isOdd && random.oneIn(8) ? random.pick(lineEnds) : '\r\n'
    text += `${size}${isOdd || random.oneIn(8) ? random.pick(extensions) : ''}${end}${data}${isOdd && random.oneIn(8) ? random.pick(lineEnds) : '\r\n'}`
  }
  return `${text}0${random.oneIn(12) ? random.pick(extensions) : ''}\r\n${isOdd || random.oneIn(8) ? random.pick(trailers) : ''}\r\n`
}

const special = ['\r', '\n', '\r\n', '\r\n\r\n', '\x00', ' ', '\t', ':', ',', ';', '0', '\xff', '\x7f', 'Content-Length: 3\r\n', 'Transfer-Encoding: chunked\r\n', smuggled] // prettier-ignore

function spoiled(text: string, random: Random): string {
  let result = text
  for (let i = 1 + random.int(3); i > 0 && result.length > 0; i--) {
    const at = random.int(result.length)
    const length = random.int(4)
    const cut = result.slice(at, at + 1 + random.int(20))
    switch (random.int(5)) {
      case 0: result = result.slice(0, at) + random.pick(special) + result.slice(at); break // prettier-ignore
      case 1: result = result.slice(0, at) + random.pick(special) + result.slice(at + length); break // prettier-ignore
      case 2: result = result.slice(0, at) + result.slice(at + length); break // prettier-ignore
      case 3: result = result.slice(0, at) + String.fromCharCode(random.int(256)) + result.slice(at + 1); break // prettier-ignore
      default: result = result.slice(0, at) + cut + result.slice(at) // prettier-ignore
    }
  }
  return result
}
