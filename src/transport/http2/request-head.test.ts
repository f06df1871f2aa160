import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HpackDecoder } from './hpack-decoder.ts'
import { encodeHeaderBlock } from './hpack-encoder.ts'
import { HeaderBlockMemo } from './header-block-memo.ts'
import { parseRequestHead, type RequestHead } from './request-head.ts'

const memoOf = (decoder: HpackDecoder): HeaderBlockMemo<RequestHead> =>
  new HeaderBlockMemo(decoder, 16 * 1024, parseRequestHead)

const fields = (path: string): [string, string][] => [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', path],
  ['content-type', 'application/grpc+proto'],
  ['grpc-timeout', '5S'],
]

test('a block that is repeated gives the very same head', () => {
  const memo = memoOf(new HpackDecoder())
  const heads = ['/a', '/b', '/a', '/b'].map((path) => memo.read(encodeHeaderBlock(fields(path))))
  assert.equal(heads[0], heads[2])
  assert.equal(heads[1], heads[3])
  assert.deepEqual([heads[0]?.path, heads[1]?.path, heads[0]?.timeoutNs], ['/a', '/b', 5e9])
})

test('the same bytes after a change of the table are decoded anew', () => {
  const decoder = new HpackDecoder()
  const memo = memoOf(decoder)
  const rest = encodeHeaderBlock(fields('/').filter(([name]) => name !== ':path'))
  const keptPath = (path: string): Buffer => Buffer.concat([Buffer.of(0x44, path.length), Buffer.from(path)])
  // The pseudo headers come first, so the path is put into the table by a request of its own.
  const put = (path: string): unknown => memo.read(Buffer.concat([keptPath(path), rest]))
  const referring = Buffer.concat([Buffer.of(0xbe), rest])
  put('/one')
  assert.equal(memo.read(referring)?.path, '/one')
  assert.equal(memo.read(referring)?.path, '/one')
  put('/two')
  assert.equal(memo.read(referring)?.path, '/two')
})

test('a block that changes the table is not taken for a repetition', () => {
  const memo = memoOf(new HpackDecoder())
  const block = Buffer.concat([
    Buffer.from([0x44, 2, 0x2f, 0x61]),
    encodeHeaderBlock(fields('/').filter(([name]) => name !== ':path')),
  ])
  const [one, two] = [memo.read(block), memo.read(block)]
  assert.notEqual(one, two)
  assert.deepEqual([one?.path, two?.path], ['/a', '/a'])
})

test('more methods in turn than are remembered are all understood', () => {
  const memo = memoOf(new HpackDecoder())
  for (let i = 0; i < 30; i++) assert.equal(memo.read(encodeHeaderBlock(fields(`/${i % 7}`)))?.path, `/${i % 7}`)
})

test('a malformed head is none', () => {
  const memo = memoOf(new HpackDecoder())
  for (let i = 0; i < 2; i++) assert.equal(memo.read(encodeHeaderBlock([[':method', 'POST']])), null)
})
