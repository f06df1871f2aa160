import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { ChunkedDecoder } from './chunked-decoder.ts'
import { headerOf } from './http-message.ts'
import { halfHeadFault, parseRequestHead, toldTwice, type RequestHead } from './request-head.ts'

const parsed = (...lines: string[]): ReturnType<typeof parseRequestHead> => parseRequestHead(lines.join('\r\n'))
const head = (...lines: string[]): RequestHead => {
  const read = parsed(...lines)
  return typeof read === 'string' ? assert.fail(read) : read
}

test('a head is its line and its headers, in the client’s order and spelling', () => {
  assert.deepEqual(head('POST /v2/models/m/infer?x=1 HTTP/1.1', 'Host: here', 'X-Two:  a b \t', 'content-length: 12'), {
    method: 'POST',
    target: '/v2/models/m/infer?x=1',
    headers: ['Host', 'here', 'X-Two', 'a b \t', 'content-length', '12'],
    bodyBytes: 12,
    isHttp10: false,
    keepsAlive: true,
    expectsContinue: false,
  })
})

test('blanks behind a value are kept for models, and no reader of a header sees them', () => {
  const { headers, keepsAlive, bodyBytes } = head('POST / HTTP/1.1', 'X-Two:  a b \t', 'Connection: close ', 'Content-Length: 7 \t') // prettier-ignore
  assert.equal(headerOf(headers, 'x-two'), 'a b')
  assert.deepEqual([keepsAlive, bodyBytes], [false, 7])
  assert.equal(headerOf(['A', ' \t '], 'a'), '')
})

test('a connection stays open unless it is said otherwise, and in HTTP/1.0 only when it is said', () => {
  assert.equal(head('GET / HTTP/1.1').keepsAlive, true)
  assert.equal(head('GET / HTTP/1.1', 'Connection: upgrade, Close').keepsAlive, false)
  assert.equal(head('GET / HTTP/1.0').keepsAlive, false)
  assert.equal(head('GET / HTTP/1.0', 'Connection: Keep-Alive').keepsAlive, true)
})

const firstLine = /^the first line of a request reads 'METHOD \/path HTTP\/1\.1' and ends with CR LF; found '/
const refused: [rule: string, lines: string[], fault: RegExp][] = [
  ['no version', ['GET /'], firstLine],
  ['another version', ['GET / HTTP/2.0'], firstLine],
  ['two spaces', ['GET  / HTTP/1.1'], firstLine],
  ['a control character in the target', ['GET /\x01 HTTP/1.1'], firstLine],
  ['a method that nobody knows', ['FETCH / HTTP/1.1'], firstLine],
  ['a header without a colon', ['GET / HTTP/1.1', 'Host'], /a name, a colon and a value; found 'Host'$/],
  ['a space before the colon', ['GET / HTTP/1.1', 'Host : x'], /^'Host ' cannot be the name of a header$/],
  ['a folded header', ['GET / HTTP/1.1', 'A: x', ' folded'], /found ' folded'$/],
  ['a NUL in a value', ['GET / HTTP/1.1', 'A: \0'], /^the header 'A' has a control character in its value$/],
  ['a bare line feed in a value', ['GET / HTTP/1.1', 'A: x\nB: y'], /^the header 'A' has a control character/],
  ['a bare carriage return in a value', ['GET / HTTP/1.1', 'A: x\rB: y'], /^the header 'A' has a control character/],
  ['a length that is no number', ['POST / HTTP/1.1', 'Content-Length: abc'], /a number of bytes, found 'abc'$/],
  ['a negative length', ['POST / HTTP/1.1', 'Content-Length: -1'], /found '-1'$/],
  ['a length with a sign', ['POST / HTTP/1.1', 'Content-Length: +1'], /found '\+1'$/],
  ['a list of lengths', ['POST / HTTP/1.1', 'Content-Length: 1, 1'], /found '1, 1'$/],
  ['two different lengths', ['POST / HTTP/1.1', 'Content-Length: 1', 'Content-Length: 2'], /Content-Length .* twice$/],
  ['a length beyond counting', ['POST / HTTP/1.1', 'Content-Length: 99999999999999999999'], /found '9{20}'$/],
  ['an unknown transfer encoding', ['POST / HTTP/1.1', 'Transfer-Encoding: gzip, chunked'], /'chunked', found 'gzip, chunked'$/], // prettier-ignore
  ['the same length twice', ['POST / HTTP/1.1', 'Content-Length: 5', 'Content-Length: 5'], /Content-Length .* twice$/],
  ['chunked twice', ['POST / HTTP/1.1', 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], /twice$/],
  ['a tab behind chunked', ['POST / HTTP/1.1', 'Transfer-Encoding: chunked\t'], /ends with a tab$/],
  ['chunks in HTTP/1.0', ['POST / HTTP/1.0', 'Transfer-Encoding: chunked'], /^a request of HTTP\/1\.0/],
]
for (const [rule, lines, fault] of refused) {
  test(`refused, and its client is told why: ${rule}`, () => {
    const found = parsed(...lines)
    assert.match(typeof found === 'string' ? found : assert.fail('it was read'), fault)
  })
}

test('a fault quotes the beginning of a long line, and nothing is said to who sends no HTTP', () => {
  const long = parsed(`GET /${'a'.repeat(5000)}\x01 HTTP/1.1`) as string
  assert.ok(long.length < 250 && long.endsWith("…'"), long)
  assert.equal(parsed('NONSENSE'), '')
})

test('half a head is judged by its first line, whose end has two bytes', () => {
  const fault = (half: string): string | null => halfHeadFault(Buffer.from(half, 'latin1'))
  assert.equal(fault('GET / HTT'), null)
  assert.equal(fault('GET / HTTP/1.1\r\nHos'), null)
  assert.match(fault('GET / HTTP/1.1\nHost: x\n\n') ?? '', /ends with CR LF; found 'GET \/ HTTP\/1\.1'$/)
  assert.equal(fault('what is this\n'), '')
  assert.equal(fault('\x16\x03\x01'), '')
})

test('a length and chunks together are told, so that the client gets an answer', () => {
  assert.equal(head('POST / HTTP/1.1', 'Content-Length: 1', 'Transfer-Encoding: chunked').bodyBytes, toldTwice)
})

test('the target is UTF-8, values are left one character per byte', () => {
  const latin1 = Buffer.from('GET /v2/models/modèle HTTP/1.1\r\nX: ü').toString('latin1')
  assert.equal(head(latin1).target, '/v2/models/modèle')
  assert.deepEqual(head(latin1).headers, ['X', Buffer.from('ü').toString('latin1')])
})

test('chunks come out whole, however the bytes are cut, and what follows the body is left alone', () => {
  const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 })
  fc.assert(
    fc.property(pieces, fc.array(fc.integer({ min: 1, max: 9 })), fc.boolean(), (chunks, cuts, hasTrailer) => {
      const encoded = chunks.map((chunk) =>
        Buffer.concat([Buffer.from(`${chunk.length.toString(16)};ext=1\r\n`), chunk, Buffer.from('\r\n')]),
      )
      const end = `0\r\n${hasTrailer ? 'X-Sum: 1\r\n' : ''}\r\n`
      const wire = Buffer.concat([...encoded, Buffer.from(end), Buffer.from('GET')])
      const decoder = new ChunkedDecoder()
      const taken: Buffer[] = []
      let at = 0
      for (let turn = 0; !decoder.isComplete; turn++) {
        const some = wire.subarray(at, at + (cuts[turn % (cuts.length || 1)] ?? 1000))
        assert.ok(some.length > 0, 'the body ends within its bytes')
        at += decoder.decode(some, 0, (piece) => taken.push(Buffer.from(piece)))
      }
      assert.deepEqual(Buffer.concat(taken), Buffer.concat(chunks))
      assert.equal(wire.subarray(at).toString(), 'GET')
    }),
  )
})

for (const wire of [
  'x\r\n',
  '\r\n',
  '1\r\nab\r\n',
  '1\r\na\n',
  '123456789\r\n',
  `${'0'.repeat(2000)}\r\n`,
  '-1\r\n',
  '0x1\r\n',
]) {
  test(`chunks that cannot be trusted are broken: ${JSON.stringify(wire.slice(0, 20))}`, () => {
    const decoder = new ChunkedDecoder()
    decoder.decode(Buffer.from(wire), 0, () => undefined)
    assert.equal(decoder.isBroken, true)
  })
}
