import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'node:test'
import { HttpResponseScanner } from './http-response-scanner.ts'

const plain = (body: string, status = '200 OK'): Buffer =>
  Buffer.from(`HTTP/1.1 ${status}\r\nContent-Type: x\r\nInference-Header-Content-Length: 2\r\ncontent-length: ${body.length}\r\n\r\n${body}`) // prettier-ignore
const chunked = Buffer.from(
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\nT: 1\r\n\r\n',
)

/** True at the last piece and nowhere before. */
function feedInPieces(scanner: HttpResponseScanner, bytes: Buffer, cuts: readonly number[]): void {
  const edges = [0, ...cuts.map((cut) => cut % bytes.length).toSorted((a, b) => a - b), bytes.length]
  for (let at = 1; at < edges.length; at++) {
    const piece = bytes.subarray(edges[at - 1], edges[at])
    if (piece.length === 0) continue
    assert.equal(scanner.feed(Buffer.from(piece)), edges[at] === bytes.length)
  }
}

test('answers come out the same however the network cuts them', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 12 }), fc.string({ maxLength: 40 }), (cuts, text) => {
      const body = Buffer.from(text, 'latin1').toString('base64')
      const scanner = new HttpResponseScanner(true)
      for (let round = 0; round < 2; round++) {
        feedInPieces(scanner, plain(body), cuts)
        assert.equal(scanner.status, 200)
        assert.equal(scanner.inferHeaderLength, 2)
        assert.equal(scanner.takeBody().toString(), body)
        feedInPieces(scanner, chunked, cuts)
        assert.equal(scanner.takeBody().toString(), 'abcde')
      }
    }),
  )
})

test('bodies are kept when they are wanted, or when they tell of an error', () => {
  const scanner = new HttpResponseScanner(false)
  assert.equal(scanner.feed(plain('hello')), true)
  assert.equal(scanner.takeBody().length, 0)
  assert.equal(scanner.feed(plain('{"error":"no"}', '400 Bad Request')), true)
  assert.equal(scanner.status, 400)
  assert.equal(scanner.takeBody().toString(), '{"error":"no"}')
})

test('what is no answer to one request is refused', () => {
  const feed = (text: string): boolean => new HttpResponseScanner(false).feed(Buffer.from(text))
  assert.throws(() => feed('SSH-2.0-x\r\n\r\n'), /expected an answer of HTTP/)
  assert.throws(() => feed(plain('a').toString() + plain('b').toString()), /more than one answer/)
  assert.throws(() => feed('HTTP/1.1 200 OK\r\n\r\nabc'), /neither its length/)
  assert.throws(() => feed('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n'), /no size of a chunk/)
  assert.throws(() => feed(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}`), /64 KiB/)
})

test('an answer that ends the connection says so, and one without a body ends with its head', () => {
  const scanner = new HttpResponseScanner(false)
  assert.equal(scanner.feed(Buffer.from('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')), true)
  assert.equal(scanner.isClosing, true)
  assert.equal(scanner.feed(Buffer.from('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n')), true)
  assert.equal(scanner.status, 204)
})
