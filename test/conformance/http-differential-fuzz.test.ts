// Our reading of HTTP/1.1 against node:http's: whatever arrives, we take no request that Node would not have taken, with the same
// method, target, headers and body. What two programs read in two ways is how one request is smuggled inside another.
// GALATEA_FUZZ_CASES says how many connections are tried, GALATEA_SEED repeats a run.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fieldValue } from '../../src/transport/http1/http-message.ts'
import { cutIntoPieces, generateConnection } from './http-message-fuzzer.ts'
import { NodeReader, readByUs, type ReadRequest, type Reading } from './http-parsers.ts'

const cases = Number(process.env['GALATEA_FUZZ_CASES'] ?? 60_000)
const seed = Number(process.env['GALATEA_SEED'] ?? process.hrtime.bigint() % 2n ** 31n)

/** Node leaves targets as they came; we read them as UTF-8. */
const asNode = ({ target, ...rest }: ReadRequest): ReadRequest => ({
  ...rest,
  target: Buffer.from(target, 'latin1').toString('utf8'),
})

/** The one thing that we take and Node does not: names of models in UTF-8. It says nothing about where a message ends. */
const hasHighTarget = ({ target }: ReadRequest): boolean => /[^\x20-\x7e]/.test(target)
const withoutHighBytes = (bytes: Buffer): Buffer => Buffer.from(bytes.map((byte) => (byte < 0x80 ? byte : 0x61)))

const describe = (bytes: Buffer, ours: Reading, nodes: Reading & { readonly complaint: string }): string =>
  `${JSON.stringify(bytes.toString('latin1'))}\nours ${JSON.stringify(ours)}\nnode ${JSON.stringify(nodes)}`

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

test(`${cases} generated connections: we accept nothing that Node refuses, and read nothing otherwise than it does`, async (t) => {
  t.diagnostic(`seed ${seed}`)
  const node = new NodeReader()
  let accepted = 0
  let closed = 0
  for (let number = 0; number < cases; number++) {
    // What connections begin in one turn of the event loop has a bound: each case gets a turn.
    await nextTurn()
    const { bytes: generated, random } = generateConnection(seed, number)
    const bytes = readByUs([generated]).requests.some(hasHighTarget) ? withoutHighBytes(generated) : generated
    const ours = readByUs([bytes])
    const nodes = node.read(bytes)
    accepted += ours.requests.length
    if (!ours.isOpen) closed++
    const compared = Math.min(ours.requests.length, nodes.requests.length)
    const isPrefix = ours.requests.length <= nodes.requests.length || nodes.isUpgrade
    if (!isPrefix) assert.fail(`case ${number}: more requests than Node reads\n${describe(bytes, ours, nodes)}`)
    for (let i = 0; i < compared; i++) {
      const [mine, theirs] = [ours.requests[i] as ReadRequest, asNode(nodes.requests[i] as ReadRequest)]
      if (!isSame(mine, theirs)) assert.fail(`case ${number}: request ${i} differs\n${describe(bytes, ours, nodes)}`)
    }
    const inPieces = readByUs(cutIntoPieces(bytes, random))
    if (!inPieces.requests.every((request, i) => isSame(request, ours.requests[i]))) {
      assert.fail(`case ${number}: read otherwise in pieces\n${describe(bytes, inPieces, nodes)}`)
    }
  }
  t.diagnostic(`${accepted} requests were taken, ${closed} connections closed`)
  // Connections that were all refused, or never, would prove little.
  assert.ok(accepted > cases / 2 && closed > cases / 5)
})

function isSame(a: ReadRequest, b: ReadRequest | undefined): boolean {
  if (b === undefined || a.method !== b.method || a.target !== b.target || a.body !== b.body) return false
  // Blanks behind a value are kept, and no reader of a header sees them.
  return (
    a.headers.length === b.headers.length &&
    a.headers.every((text, i) => fieldValue(text) === fieldValue(b.headers[i] as string))
  )
}

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n'
const head = (...lines: string[]): string => `${['POST / HTTP/1.1', 'Host: a', ...lines].join('\r\n')}\r\n\r\n`
const chunked = (...parts: string[]): string => head('Transfer-Encoding: chunked') + parts.join('')

/** Each is read in two ways by programs that exist. */
const ambiguous: Readonly<Record<string, string>> = {
  'a length and chunks': head('Content-Length: 5', 'Transfer-Encoding: chunked') + `0\r\n\r\n${smuggled}`,
  'chunks and a length': head('Transfer-Encoding: chunked', 'Content-Length: 5') + `0\r\n\r\n${smuggled}`,
  'two lengths': head('Content-Length: 0', 'Content-Length: 5') + smuggled,
  'the same length twice': head('Content-Length: 5', 'Content-Length: 5') + `hello${smuggled}`,
  'two lengths in one header': head('Content-Length: 5, 5') + `hello${smuggled}`,
  'a length with a sign': head('Content-Length: +5') + `hello${smuggled}`,
  'a length in hexadecimal': head('Content-Length: 0x5') + `hello${smuggled}`,
  'an empty length': head('Content-Length:') + smuggled,
  'a blank before the colon': head('Content-Length : 5') + `hello${smuggled}`,
  'a folded length': head('X: a', ' Content-Length: 5') + smuggled,
  'a folded encoding': head('Transfer-Encoding:', ' chunked') + `0\r\n\r\n${smuggled}`,
  'chunked twice': head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked') + `0\r\n\r\n${smuggled}`,
  'chunked and something else': head('Transfer-Encoding: chunked, identity') + `0\r\n\r\n${smuggled}`,
  'something like chunked': head('Transfer-Encoding: xchunked') + `0\r\n\r\n${smuggled}`,
  'chunked with a control character': head('Transfer-Encoding: \x0bchunked') + `0\r\n\r\n${smuggled}`,
  'chunked with a tab behind it': head('Transfer-Encoding: chunked\t') + `0\r\n\r\n${smuggled}`,
  'chunks before HTTP/1.1': `POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
  'a bare LF after a header': `POST / HTTP/1.1\nHost: a\r\n\r\n${smuggled}`,
  'a bare LF inside the head': `POST / HTTP/1.1\r\nX: a\nContent-Length: 5\r\n\r\n${smuggled}`,
  'a bare CR inside the head': `POST / HTTP/1.1\r\nX: a\rContent-Length: 5\r\n\r\n${smuggled}`,
  'NUL in a value': head('X: a\0b') + smuggled,
  'a bare LF after a chunk size': chunked(`5\nhello\r\n0\r\n\r\n`, smuggled),
  'a bare LF after a chunk': chunked('5\r\nhello\n0\r\n\r\n', smuggled),
  'no line end after a chunk': chunked('5\r\nhello0\r\n\r\n', smuggled),
  'a chunk longer than its size': chunked('3\r\nhello\r\n0\r\n\r\n', smuggled),
  'a chunk size in 0x': chunked('0x5\r\nhello\r\n0\r\n\r\n', smuggled),
  'a chunk size with a sign': chunked('+5\r\nhello\r\n0\r\n\r\n', smuggled),
  'a chunk size with a blank': chunked('5 \r\nhello\r\n0\r\n\r\n', smuggled),
  'a chunk size that overflows': chunked('10000000000000005\r\nhello\r\n0\r\n\r\n', smuggled),
  'a chunk extension with CR': chunked('5;a\rb\r\nhello\r\n0\r\n\r\n', smuggled),
  'a chunk extension with LF': chunked('5;a\nhello\r\n0\r\n\r\n', smuggled),
  'a chunk extension with NUL': chunked('5;\0\r\nhello\r\n0\r\n\r\n', smuggled),
  'a trailer without a colon': chunked('0\r\nbad\r\n\r\n', smuggled),
  'a trailer with a bare LF': chunked('0\r\nX: a\nY: b\r\n\r\n', smuggled),
  'a trailer with a bare CR': chunked('0\r\nX: a\rb\r\n\r\n', smuggled),
}

for (const [what, text] of Object.entries(ambiguous)) {
  test(`${what}: the connection closes, and what follows is no request`, () => {
    const bytes = Buffer.from(text, 'latin1')
    for (const pieces of [[bytes], Array.from(bytes, (byte) => Buffer.of(byte))]) {
      const { requests, isOpen } = readByUs(pieces)
      assert.equal(isOpen, false)
      assert.deepEqual(requests, [])
    }
  })
}
