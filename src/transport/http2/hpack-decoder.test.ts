import assert from 'node:assert/strict'
import { once } from 'node:events'
import http2 from 'node:http2'
import net from 'node:net'
import { test } from 'node:test'
import * as fc from 'fast-check'
import {
  clientPreface,
  encodeSettings,
  frameFlags,
  frameTypes,
  leastMaxFrameBytes,
  settingsAck,
} from './http2-format.ts'
import { Http2Error } from './http2-error.ts'
import { errorCodes } from './http2-format.ts'
import { FrameReader, type FrameSink } from './frame-reader.ts'
import { HpackDecoder } from './hpack-decoder.ts'
import { until } from '../../../test/until.ts'

const decode = (decoder: HpackDecoder, hex: string): string[] => {
  const block = Buffer.from(hex.replaceAll(' ', ''), 'hex')
  return decoder.decode(block, 0, block.length, 100_000)
}

const request = [':method', 'GET', ':scheme', 'http', ':path', '/', ':authority', 'www.example.com']
const laterRequest = [':method', 'GET', ':scheme', 'https', ':path', '/index.html', ':authority', 'www.example.com']

test('the examples of RFC 7541, C.2: each kind of field', () => {
  const custom = '400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572'
  assert.deepEqual(decode(new HpackDecoder(), custom), ['custom-key', 'custom-header'])
  assert.deepEqual(decode(new HpackDecoder(), '040c 2f73 616d 706c 652f 7061 7468'), [':path', '/sample/path'])
  assert.deepEqual(decode(new HpackDecoder(), '1008 7061 7373 776f 7264 0673 6563 7265 74'), ['password', 'secret'])
  assert.deepEqual(decode(new HpackDecoder(), '82'), [':method', 'GET'])
})

for (const [form, blocks] of [
  [
    'C.3: requests without Huffman code',
    [
      '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
      '8286 84be 5808 6e6f 2d63 6163 6865',
      '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
    ],
  ],
  [
    'C.4: requests with Huffman code',
    [
      '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
      '8286 84be 5886 a8eb 1064 9cbf',
      '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
    ],
  ],
] as const) {
  test(`the examples of RFC 7541, ${form}`, () => {
    const decoder = new HpackDecoder()
    assert.deepEqual(decode(decoder, blocks[0]), request)
    assert.deepEqual(decode(decoder, blocks[1]), [...request, 'cache-control', 'no-cache'])
    assert.deepEqual(decode(decoder, blocks[2]), [...laterRequest, 'custom-key', 'custom-value'])
  })
}

const dates = ['Mon, 21 Oct 2013 20:13:21 GMT', 'Mon, 21 Oct 2013 20:13:22 GMT']
const cookie = 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1'
const answer = (status: string, date: string | undefined): string[] => [
  ':status',
  status,
  'cache-control',
  'private',
  'date',
  date ?? '',
  'location',
  'https://www.example.com',
]

test('the examples of RFC 7541, C.6: a table of 256 bytes forgets its oldest fields', () => {
  const decoder = new HpackDecoder()
  const first =
    '3fe1 0148 8264 0258 85ae c377 1a4b 6196 d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff 6e91 9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3'
  assert.deepEqual(decode(decoder, first), answer('302', dates[0]))
  assert.deepEqual(decode(decoder, '4883 640e ffc1 c0bf'), answer('307', dates[0]))
  const third =
    '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07'
  const more = ['content-encoding', 'gzip', 'set-cookie', cookie]
  assert.deepEqual(decode(decoder, third), [...answer('200', dates[1]), ...more])
  assert.throws(() => decode(decoder, 'c1'), Http2Error)
})

test('a block beyond the limit is not kept, but its fields enter the table', () => {
  const decoder = new HpackDecoder()
  const block = Buffer.concat([Buffer.from('4001610162', 'hex'), Buffer.alloc(300, 0xbe)])
  assert.deepEqual(decoder.decode(block, 0, block.length, 1000), [])
  assert.equal(decoder.isTooLarge, true)
  assert.deepEqual(decode(decoder, 'be'), ['a', 'b'])
  assert.equal(decoder.isTooLarge, false)
})

test('a block whose few bytes stand for far more than the limit ends the connection before it is read to its end', () => {
  const decoder = new HpackDecoder()
  const field = Buffer.concat([Buffer.from('4001617fa11e', 'hex'), Buffer.alloc(4000, 'b')])
  decoder.decode(field, 0, field.length, 16_384)
  // Behind the bomb stands what cannot be decoded, and nobody gets there.
  const bomb = Buffer.concat([Buffer.alloc(10_000, 0xbe), Buffer.from('ffffffffff', 'hex')])
  const calm = (reason: unknown): boolean =>
    reason instanceof Http2Error && reason.code === errorCodes.ENHANCE_YOUR_CALM
  assert.throws(() => decoder.decode(bomb, 0, bomb.length, 16_384), calm)
})

test('the version of the table changes with the table and not without', () => {
  const decoder = new HpackDecoder()
  const versions = ['82', '0001610162', '1001610162', '4001610162', '20', '82'].map((hex) => {
    const before = decoder.tableVersion
    decode(decoder, hex)
    return decoder.tableVersion !== before
  })
  assert.deepEqual(versions, [false, false, false, true, true, false])
})

test('any bytes decode or are refused, and cost no more than their share', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 5 }), (blocks) => {
      const decoder = new HpackDecoder()
      try {
        for (const bytes of blocks) {
          const fields = decoder.decode(Buffer.from(bytes), 0, bytes.length, 16_384)
          assert.equal(fields.length % 2, 0)
          assert.ok(fields.reduce((sum, text) => sum + text.length + 16, 0) <= 16_384)
        }
      } catch (reason) {
        assert.ok(reason instanceof Http2Error)
      }
    }),
    { numRuns: 5000 },
  )
})

/** Takes what node:http2 sends, and keeps the header blocks. */
class BlockSink implements FrameSink {
  readonly isClosed = false
  readonly decoder = new HpackDecoder()
  readonly lists: string[][] = []
  #parts: Buffer[] = []
  onFrameHeader(): void {}
  onDataPiece(): void {}
  onFrame(type: number, flags: number, _id: number, payload: Buffer): void {
    if (type !== frameTypes.HEADERS && type !== frameTypes.CONTINUATION) return
    // It sets no priority and no padding.
    this.#parts.push(Buffer.from((flags & frameFlags.PRIORITY) === 0 ? payload : payload.subarray(5)))
    if ((flags & frameFlags.END_HEADERS) === 0) return
    const block = Buffer.concat(this.#parts)
    this.#parts = []
    this.lists.push(this.decoder.decode(block, 0, block.length, 1_000_000))
  }
}

test('what the encoder of node:http2 writes is read as it was meant, block after block', async () => {
  const sink = new BlockSink()
  const reader = new FrameReader(sink, leastMaxFrameBytes, clientPreface)
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.write(Buffer.concat([encodeSettings([]), settingsAck]))
    socket.on('data', (chunk: Buffer) => reader.push(chunk))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const session = http2.connect(`http://127.0.0.1:${(server.address() as net.AddressInfo).port}`)
  await once(session, 'remoteSettings')
  const name = fc.stringMatching(/^x-[a-z0-9_.-]{1,20}$/)
  const value = fc.stringMatching(/^([!-~][ -~]{0,100}[!-~])?$/)
  const latin = fc.array(fc.integer({ min: 0x80, max: 0xff })).map((codes) => String.fromCharCode(...codes))
  const field = fc.tuple(name, fc.oneof(value, latin, fc.constantFrom('a', 'b', 'c'.repeat(1000))))
  const lists = fc.sample(fc.array(field, { maxLength: 30 }), 300)
  const meant = lists.map((fields) => {
    const seen = new Map(fields)
    const headers = { ':method': 'POST', ':path': `/${fields.length}`, ...Object.fromEntries(seen) }
    session.request(headers).on('error', () => undefined)
    return [...seen].flat()
  })
  await until(() => sink.lists.length >= meant.length, 'all lists', { seen: () => sink.lists.length })
  const got = sink.lists.map((fields) =>
    fields.slice(fields.findIndex((text, i) => i % 2 === 0 && text.startsWith('x-'))),
  )
  for (const [i, fields] of meant.entries()) if (fields.length > 0) assert.deepEqual(got[i], fields)
  session.destroy()
  server.close()
})
