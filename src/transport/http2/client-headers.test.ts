import assert from 'node:assert/strict'
import { once } from 'node:events'
import http2 from 'node:http2'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { readAnswerHeaders, requestBlocks, tableBytes } from './client-headers.ts'
import { HpackDecoder } from './hpack-decoder.ts'

const fieldsOf = (block: Buffer): string[] => new HpackDecoder().decode(block, 0, block.length, 1024)

test('status and message are read from literals, plain or Huffman, and from the static table', () => {
  const plain = Buffer.concat([
    Buffer.from([0x20, 0x88, 0x00, 11]),
    Buffer.from('grpc-status'),
    Buffer.from([1]),
    Buffer.from('3'),
    Buffer.from([0x00, 12]),
    Buffer.from('grpc-message'),
    Buffer.from([7]),
    Buffer.from('a%20b%3'),
  ])
  assert.deepEqual(readAnswerHeaders(fieldsOf(plain)), {
    httpStatus: 200,
    grpcStatus: 3,
    grpcMessage: 'a%20b%3',
    encoding: '',
  })
})

test('a block that refers to a table, or that is cut short, is refused', () => {
  assert.throws(() => fieldsOf(Buffer.from([0xbe])), /no field 62 in the table/)
  assert.throws(() => fieldsOf(Buffer.from([0x00, 11, 0x67])), /a text is cut off/)
})

test("a server of Node's reads the same fields from the first block and from the later ones, with a table and without", async () => {
  const fields = [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', '/inference.GRPCInferenceService/ModelInfer'],
    [':authority', 'localhost:8001'],
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
    ['x-long', 'v'.repeat(300)],
  ] as const
  const seen: (string | undefined)[][] = []
  const server = http2.createServer().listen(0, '127.0.0.1')
  server.on('stream', (stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => {
    seen.push(fields.map(([name]) => headers[name] as string | undefined))
    stream.respond({ ':status': 200 })
    stream.end()
  })
  await once(server, 'listening')
  const { connect } = await import('node:net')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
    const head = Buffer.alloc(9)
    head.writeUIntBE(payload.length, 0, 3)
    head[3] = type
    head[4] = flags
    head.writeUInt32BE(stream, 5)
    return Buffer.concat([head, payload])
  }
  const withTable = requestBlocks(fields, true)
  const without = requestBlocks(fields, false)
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  socket.write(frame(4, 0, 0, Buffer.alloc(0)))
  const blocks = [withTable.first, withTable.later, withTable.later, without.first, without.later]
  for (const [at, block] of blocks.entries()) socket.write(frame(1, 5, 1 + at * 2, block))
  const { promise, resolve } = Promise.withResolvers<void>()
  server.on('stream', () => {
    if (seen.length === blocks.length) resolve()
  })
  await promise
  socket.destroy()
  server.close()
  const expected = fields.map(([, value]) => value)
  for (const each of seen) assert.deepEqual(each, expected)
  assert.ok(tableBytes(fields) < 4096)
})
