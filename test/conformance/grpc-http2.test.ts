// What RFC 9113 (HTTP/2) and RFC 7541 (HPACK) ask of a server, one case each: what a client says, and what it gets for it.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  clientPreface,
  encodeFrame,
  encodePing,
  encodeReset,
  encodeSettings,
  encodeWindowUpdate,
  errorCodes,
  frameFlags,
  frameTypes,
  settingIds,
  writeFrameHeader,
} from '../../src/transport/http2/http2-format.ts'
import { maxConcurrentStreams, maxFrameBytes } from '../../src/transport/http2/server-preface.ts'
import { encodeHeaderBlock } from '../../src/transport/http2/hpack-encoder.ts'
import { GrpcFixture, service } from './grpc-fixture.ts'
import {
  dataOf,
  emptyMessage,
  greeting,
  headersOf,
  Http2RawClient,
  requestFields,
  type Frame,
} from './http2-raw-client.ts'

type CodeName = keyof typeof errorCodes
/** What the client gets: the connection's last words, the end of a stream, an answer; or nothing, and all goes on. */
type Outcome =
  | { readonly goaway: CodeName }
  | { readonly reset: CodeName; readonly on?: number }
  | { readonly status: string; readonly on?: number }
  | { readonly grpc: string; readonly on?: number }
  | 'goes on'
type Case = readonly [rule: string, said: readonly Uint8Array[], outcome: Outcome]

const T = frameTypes
const { ACK, END_HEADERS, END_STREAM, PADDED, PRIORITY } = frameFlags
const live = requestFields(`${service}ServerLive`)
/** Its call stays open after its message. */
const watch = requestFields('/grpc.health.v1.Health/Watch')

const ask = (id: number): Buffer => Buffer.concat([headersOf(id, live), dataOf(id)])
const open = (id: number): Buffer => headersOf(id, live)
const watching = (id: number): Buffer => Buffer.concat([headersOf(id, watch), dataOf(id)])
const frame = (type: number, flags: number, id: number, ...bytes: number[]): Buffer =>
  encodeFrame(type, flags, id, Buffer.from(bytes))
const sized = (type: number, flags: number, id: number, bytes: number): Buffer =>
  encodeFrame(type, flags, id, Buffer.alloc(bytes))
const announced = (type: number, id: number, bytes: number): Buffer => {
  const header = Buffer.alloc(9)
  writeFrameHeader(header, 0, bytes, type, END_HEADERS, id)
  return header
}
const setting = (id: number, value: number): Buffer => encodeSettings([[id, value]])
const block = (...bytes: number[]): Buffer => frame(T.HEADERS, END_HEADERS | END_STREAM, 1, ...bytes)
const liveBlock = encodeHeaderBlock(live)
const requestWith = (...more: [string, string][]): Buffer =>
  Buffer.concat([headersOf(1, [...live, ...more]), dataOf(1)])
const requestWithout = (name: string): Buffer =>
  Buffer.concat([
    headersOf(
      1,
      live.filter(([given]) => given !== name),
    ),
    dataOf(1),
  ])
const first = (name: string, value: string): Buffer =>
  Buffer.concat([headersOf(1, [[name, value], ...live]), dataOf(1)])
const spacedPath = Buffer.concat([
  headersOf(
    1,
    live.map(([name, value]) => [name, name === ':path' ? `${value} ` : value]),
  ),
  dataOf(1),
])

/** The client says all of it, then waits until the server has heard it. */
async function converse(port: number, opening: Buffer, [, said, outcome]: Case): Promise<void> {
  const client = Http2RawClient.connect(port)
  client.send(opening, ...said)
  try {
    await requireOutcome(client, outcome)
  } finally {
    client.destroy()
    await client.closed
  }
}

async function requireOutcome(client: Http2RawClient, outcome: Outcome): Promise<void> {
  if (outcome === 'goes on') return requireAlive(client)
  if ('goaway' in outcome) {
    const goaway = await client.ofType(T.GOAWAY)
    assert.ok(goaway, 'the connection ended without a word')
    assert.equal(nameOf(goaway.payload.readUInt32BE(4)), outcome.goaway, goaway.payload.toString('latin1', 8))
    // Nothing is left open by either side.
    await client.closed
    return
  }
  const id = outcome.on ?? 1
  if ('reset' in outcome) {
    const reset = await client.ofType(T.RST_STREAM, id)
    assert.equal(nameOf(reset?.payload.readUInt32BE(0) ?? -1), outcome.reset)
  } else if ('status' in outcome) assert.equal(await client.trailer(id, ':status'), outcome.status)
  else assert.equal(await client.trailer(id, 'grpc-status'), outcome.grpc)
  await requireAlive(client)
}

const nameOf = (code: number): string =>
  Object.entries(errorCodes).find(([, value]) => value === code)?.[0] ?? String(code)

async function requireAlive(client: Http2RawClient): Promise<void> {
  const mark = Buffer.from('still on')
  client.send(encodePing(mark, false))
  const isAnswer = ({ type, flags, payload }: Frame): boolean =>
    type === T.PING && flags === ACK && payload.equals(mark)
  if ((await client.find(isAnswer)) !== null) return
  const goaway = client.frames.find(({ type }) => type === T.GOAWAY)
  assert.fail(`the connection ended: ${goaway?.payload.toString('latin1', 8)}`)
}

const connectionCases: readonly Case[] = [
  ['a client that speaks nothing we know is sent away', [Buffer.from('HELO a\r\n')], { goaway: 'PROTOCOL_ERROR' }],
  ['the first frame is SETTINGS', [clientPreface, encodePing(Buffer.alloc(8), false)], { goaway: 'PROTOCOL_ERROR' }],
  ['an acknowledgement is no first frame', [clientPreface, frame(T.SETTINGS, ACK, 0)], { goaway: 'PROTOCOL_ERROR' }],
  ['the preface may be followed by calls at once', [greeting, ask(1)], { grpc: '0' }],
]

const frameCases: readonly Case[] = [
  ['frames of unknown types are passed over', [frame(0x16, 0xff, 0, 1, 2, 3), ask(1)], { grpc: '0' }],
  ['long ones too', [sized(0x16, 0, 7, 100_000), ask(1)], { grpc: '0' }],
  ['unknown flags are passed over', [frame(T.PING, 0xfe, 0, 1, 2, 3, 4, 5, 6, 7, 8), ask(1)], { grpc: '0' }],
  ['the reserved bit of a stream id is passed over', [frame(T.WINDOW_UPDATE, 0, 0x80000000, 0, 0, 0, 1)], 'goes on'],
  [
    'DATA is no longer than was agreed',
    [open(1), announced(T.DATA, 1, maxFrameBytes + 1)],
    { goaway: 'FRAME_SIZE_ERROR' },
  ],
  ['nor are HEADERS', [announced(T.HEADERS, 1, maxFrameBytes + 1)], { goaway: 'FRAME_SIZE_ERROR' }],
  ['DATA may be longer than 16 KiB', [open(1), dataOf(1, Buffer.alloc(100_000))], { grpc: '0' }],
  ['DATA belongs to a stream', [dataOf(0)], { goaway: 'PROTOCOL_ERROR' }],
  [
    'there is no more padding than DATA',
    [open(1), frame(T.DATA, PADDED, 1, 6, 0, 0, 0, 0, 0)],
    { goaway: 'PROTOCOL_ERROR' },
  ],
  ['padded DATA has a length of its padding', [open(1), frame(T.DATA, PADDED, 1)], { goaway: 'FRAME_SIZE_ERROR' }],
  [
    'padded DATA is read without its padding',
    [open(1), frame(T.DATA, PADDED | END_STREAM, 1, 3, 0, 0, 0, 0, 0, 9, 9, 9)],
    { grpc: '0' },
  ],
  ['HEADERS belong to a stream', [headersOf(0, live)], { goaway: 'PROTOCOL_ERROR' }],
  [
    'there is no more padding than HEADERS',
    [frame(T.HEADERS, END_HEADERS | PADDED, 1, 9, 0x82)],
    { goaway: 'PROTOCOL_ERROR' },
  ],
  [
    'padded HEADERS have a length of their padding',
    [frame(T.HEADERS, END_HEADERS | PADDED, 1)],
    { goaway: 'FRAME_SIZE_ERROR' },
  ],
  [
    'padding and priority of HEADERS are passed over',
    [frame(T.HEADERS, END_HEADERS | PADDED | PRIORITY, 1, 2, 0, 0, 0, 0, 9, ...liveBlock, 0, 0), dataOf(1)],
    { grpc: '0' },
  ],
  ['a priority has five bytes', [frame(T.HEADERS, END_HEADERS | PRIORITY, 1, 0, 0)], { goaway: 'PROTOCOL_ERROR' }],
  ['PRIORITY is passed over, also of streams to come', [sized(T.PRIORITY, 0, 9, 5), ask(1)], { grpc: '0' }],
  ['PRIORITY belongs to a stream', [sized(T.PRIORITY, 0, 0, 5)], { goaway: 'PROTOCOL_ERROR' }],
  ['PRIORITY has five bytes', [open(1), sized(T.PRIORITY, 0, 1, 4)], { goaway: 'FRAME_SIZE_ERROR' }],
  ['RST_STREAM belongs to a stream', [sized(T.RST_STREAM, 0, 0, 4)], { goaway: 'PROTOCOL_ERROR' }],
  ['RST_STREAM has four bytes', [open(1), sized(T.RST_STREAM, 0, 1, 3)], { goaway: 'FRAME_SIZE_ERROR' }],
  ['clients do not push', [sized(T.PUSH_PROMISE, END_HEADERS, 1, 4)], { goaway: 'PROTOCOL_ERROR' }],
  ['PING belongs to the connection', [sized(T.PING, 0, 1, 8)], { goaway: 'PROTOCOL_ERROR' }],
  ['PING has eight bytes', [sized(T.PING, 0, 0, 7)], { goaway: 'FRAME_SIZE_ERROR' }],
  ['the answer to a ping is none to answer', [sized(T.PING, ACK, 0, 8)], 'goes on'],
  ['GOAWAY belongs to the connection', [sized(T.GOAWAY, 0, 1, 8)], { goaway: 'PROTOCOL_ERROR' }],
  ['GOAWAY has eight bytes or more', [sized(T.GOAWAY, 0, 0, 7)], { goaway: 'FRAME_SIZE_ERROR' }],
  ['calls before a GOAWAY are answered', [ask(1), sized(T.GOAWAY, 0, 0, 12)], { grpc: '0' }],
  ['CONTINUATION follows HEADERS', [open(1), frame(T.CONTINUATION, END_HEADERS, 1)], { goaway: 'PROTOCOL_ERROR' }],
  ['CONTINUATION belongs to a stream', [frame(T.CONTINUATION, END_HEADERS, 0)], { goaway: 'PROTOCOL_ERROR' }],
  ['CONTINUATION does not come first', [frame(T.CONTINUATION, END_HEADERS, 1)], { goaway: 'PROTOCOL_ERROR' }],
]

const settingsCases: readonly Case[] = [
  ['an acknowledgement is empty', [sized(T.SETTINGS, ACK, 0, 6)], { goaway: 'FRAME_SIZE_ERROR' }],
  ['SETTINGS belong to the connection', [sized(T.SETTINGS, 0, 1, 6)], { goaway: 'PROTOCOL_ERROR' }],
  ['a setting has six bytes', [sized(T.SETTINGS, 0, 0, 7)], { goaway: 'FRAME_SIZE_ERROR' }],
  ['ENABLE_PUSH is 0 or 1', [setting(settingIds.ENABLE_PUSH, 2)], { goaway: 'PROTOCOL_ERROR' }],
  [
    'INITIAL_WINDOW_SIZE has a limit',
    [setting(settingIds.INITIAL_WINDOW_SIZE, 2 ** 31)],
    { goaway: 'FLOW_CONTROL_ERROR' },
  ],
  ['MAX_FRAME_SIZE is 16 KiB at least', [setting(settingIds.MAX_FRAME_SIZE, 16_383)], { goaway: 'PROTOCOL_ERROR' }],
  ['MAX_FRAME_SIZE has a limit', [setting(settingIds.MAX_FRAME_SIZE, 2 ** 24)], { goaway: 'PROTOCOL_ERROR' }],
  ['unknown settings are passed over', [setting(0x99, 7), ask(1)], { grpc: '0' }],
  [
    'a client without a header table is answered too',
    [setting(settingIds.HEADER_TABLE_SIZE, 0), ask(1), ask(3)],
    { grpc: '0', on: 3 },
  ],
]

const windowCases: readonly Case[] = [
  ['WINDOW_UPDATE has four bytes', [sized(T.WINDOW_UPDATE, 0, 0, 3)], { goaway: 'FRAME_SIZE_ERROR' }],
  ["the connection's window is not opened by nothing", [encodeWindowUpdate(0, 0)], { goaway: 'PROTOCOL_ERROR' }],
  ["a stream's window is not opened by nothing", [open(1), encodeWindowUpdate(1, 0)], { reset: 'PROTOCOL_ERROR' }],
  ["the connection's window has a limit", [encodeWindowUpdate(0, 2 ** 31 - 1)], { goaway: 'FLOW_CONTROL_ERROR' }],
  ["a stream's window has a limit", [open(1), encodeWindowUpdate(1, 2 ** 31 - 1)], { reset: 'FLOW_CONTROL_ERROR' }],
  [
    'settings open no window beyond its limit',
    [open(1), encodeWindowUpdate(1, 2 ** 31 - 65_536), setting(settingIds.INITIAL_WINDOW_SIZE, 65_536)],
    { goaway: 'FLOW_CONTROL_ERROR' },
  ],
  [
    'WINDOW_UPDATE of a closed stream is passed over',
    [open(1), encodeReset(1, 8), encodeWindowUpdate(1, 1)],
    'goes on',
  ],
]

const streamCases: readonly Case[] = [
  ['idle streams get no DATA', [dataOf(1)], { goaway: 'PROTOCOL_ERROR' }],
  ['idle streams are not reset', [encodeReset(1, 8)], { goaway: 'PROTOCOL_ERROR' }],
  ['idle streams have no window', [encodeWindowUpdate(1, 1)], { goaway: 'PROTOCOL_ERROR' }],
  ['clients open streams of odd numbers', [headersOf(2, live)], { goaway: 'PROTOCOL_ERROR' }],
  ['numbers of streams grow', [ask(5), ask(3)], { goaway: 'PROTOCOL_ERROR' }],
  ['no DATA after the end of the body', [watching(1), dataOf(1)], { reset: 'STREAM_CLOSED' }],
  ['no HEADERS after the end of the body', [watching(1), open(1)], { reset: 'STREAM_CLOSED' }],
  [
    'no CONTINUATION after the end of the body',
    [watching(1), frame(T.CONTINUATION, 0, 1)],
    { goaway: 'PROTOCOL_ERROR' },
  ],
  ['no DATA on a stream that the client reset', [open(1), encodeReset(1, 8), dataOf(1)], { reset: 'STREAM_CLOSED' }],
  ['no HEADERS on a stream that the client reset', [open(1), encodeReset(1, 8), open(1)], { goaway: 'STREAM_CLOSED' }],
  ['PRIORITY of a closed stream is passed over', [open(1), encodeReset(1, 8), sized(T.PRIORITY, 0, 1, 5)], 'goes on'],
  ['a second reset is passed over', [open(1), encodeReset(1, 8), encodeReset(1, 8)], 'goes on'],
  [
    'a header block is not interrupted',
    [frame(T.HEADERS, 0, 1, ...liveBlock), dataOf(1)],
    { goaway: 'PROTOCOL_ERROR' },
  ],
  [
    'not by unknown frames either',
    [frame(T.HEADERS, 0, 1, ...liveBlock), frame(0x16, 0, 0)],
    { goaway: 'PROTOCOL_ERROR' },
  ],
  [
    'nor by another stream',
    [frame(T.HEADERS, 0, 1, ...liveBlock), frame(T.CONTINUATION, END_HEADERS, 3)],
    { goaway: 'PROTOCOL_ERROR' },
  ],
  [
    'a header block may come in several frames',
    [
      frame(T.HEADERS, 0, 1, ...liveBlock.subarray(0, 7)),
      frame(T.CONTINUATION, 0, 1),
      frame(T.CONTINUATION, 0, 1, ...liveBlock.subarray(7, 20)),
      frame(T.CONTINUATION, END_HEADERS, 1, ...liveBlock.subarray(20)),
      dataOf(1),
    ],
    { grpc: '0' },
  ],
]

const messageCases: readonly Case[] = [
  ['names of fields are in lower case', [requestWith(['X-Name', 'a'])], { reset: 'PROTOCOL_ERROR' }],
  ['names of fields have no spaces', [requestWith(['x name', 'a'])], { reset: 'PROTOCOL_ERROR' }],
  ['names of fields are not empty', [requestWith(['', 'a'])], { reset: 'PROTOCOL_ERROR' }],
  ['values have no line ends', [requestWith(['x-name', 'a\r\nb'])], { reset: 'PROTOCOL_ERROR' }],
  ['values have no zero bytes', [requestWith(['x-name', 'a\0'])], { reset: 'PROTOCOL_ERROR' }],
  ['values may begin and end with spaces, as gRPC takes them', [requestWith(['x-name', ' a\t'])], { grpc: '0' }],
  ['pseudo headers begin and end without spaces', [spacedPath], { reset: 'PROTOCOL_ERROR' }],
  ['there are four pseudo headers', [first(':protocol', 'a')], { reset: 'PROTOCOL_ERROR' }],
  ['those of answers are none of requests', [first(':status', '200')], { reset: 'PROTOCOL_ERROR' }],
  [
    'pseudo headers come first',
    [headersOf(1, [...live.slice(1), live[0] as [string, string]])],
    { reset: 'PROTOCOL_ERROR' },
  ],
  ['pseudo headers come once', [first(':path', '/a')], { reset: 'PROTOCOL_ERROR' }],
  ['a request has a method', [requestWithout(':method')], { reset: 'PROTOCOL_ERROR' }],
  ['a request has a scheme', [requestWithout(':scheme')], { reset: 'PROTOCOL_ERROR' }],
  ['a request has a path', [requestWithout(':path')], { reset: 'PROTOCOL_ERROR' }],
  ['a path is not empty', [headersOf(1, requestFields(''))], { reset: 'PROTOCOL_ERROR' }],
  ['an authority is not needed', [requestWithout(':authority')], { grpc: '0' }],
  ['fields of HTTP/1 connections are refused', [requestWith(['connection', 'close'])], { reset: 'PROTOCOL_ERROR' }],
  ['chunked bodies are of HTTP/1', [requestWith(['transfer-encoding', 'chunked'])], { reset: 'PROTOCOL_ERROR' }],
  ['te says trailers or nothing', [requestWith(['te', 'gzip'])], { reset: 'PROTOCOL_ERROR' }],
  ['a body is as long as announced', [requestWith(['content-length', '5'])], { grpc: '0' }],
  ['a body is not shorter than announced', [requestWith(['content-length', '6'])], { reset: 'PROTOCOL_ERROR' }],
  ['a body is not longer than announced', [requestWith(['content-length', '4'])], { reset: 'PROTOCOL_ERROR' }],
  ['a length is a number', [requestWith(['content-length', '5x'])], { reset: 'PROTOCOL_ERROR' }],
  [
    'trailers end a body',
    [open(1), dataOf(1, emptyMessage, 0), headersOf(1, [['x-a', 'b']], END_HEADERS | END_STREAM)],
    { grpc: '0' },
  ],
  ['trailers are the end', [watchingOpen(), headersOf(1, [['x-a', 'b']])], { reset: 'PROTOCOL_ERROR' }],
  [
    'trailers have no pseudo headers',
    [watchingOpen(), headersOf(1, [[':path', '/']], END_HEADERS | END_STREAM)],
    { reset: 'PROTOCOL_ERROR' },
  ],
  [
    'a GET is told so',
    [headersOf(1, [[':method', 'GET'], ...live.slice(1)], END_HEADERS | END_STREAM)],
    { status: '405' },
  ],
  ['what is not gRPC is told so', [requestWithout('content-type')], { status: '415' }],
  [
    'an answer before the end of the question ends both',
    [headersOf(1, requestFields('/no.Such/Method'))],
    { reset: 'NO_ERROR' },
  ],
]

function watchingOpen(): Buffer {
  return Buffer.concat([headersOf(1, watch), dataOf(1, emptyMessage, 0)])
}

const hpackCases: readonly Case[] = [
  ['an index is in the table', [block(0xff, 0x00)], { goaway: 'COMPRESSION_ERROR' }],
  ['there is no index 0', [block(0x80)], { goaway: 'COMPRESSION_ERROR' }],
  ['the table grows no larger than agreed', [block(0x3f, 0xe2, 0x1f)], { goaway: 'COMPRESSION_ERROR' }],
  ['the table is resized before the first field', [block(0x82, 0x20)], { goaway: 'COMPRESSION_ERROR' }],
  [
    'a number does not grow without end',
    [block(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01)],
    { goaway: 'COMPRESSION_ERROR' },
  ],
  ['a number is whole', [block(0xff, 0xff)], { goaway: 'COMPRESSION_ERROR' }],
  ['a text is whole', [block(0x00, 0x05, 0x61)], { goaway: 'COMPRESSION_ERROR' }],
  ['a field has a value', [block(0x00, 0x01, 0x61)], { goaway: 'COMPRESSION_ERROR' }],
  [
    'Huffman code is padded with less than a byte',
    [block(0x00, 0x82, 0x1f, 0xff, 0x01, 0x61)],
    { goaway: 'COMPRESSION_ERROR' },
  ],
  ['Huffman code is padded with ones', [block(0x00, 0x81, 0x18, 0x01, 0x61)], { goaway: 'COMPRESSION_ERROR' }],
  [
    'Huffman code holds no end of text',
    [block(0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 0x61)],
    { goaway: 'COMPRESSION_ERROR' },
  ],
  [
    'trailers are decoded by the same rules',
    [watchingOpen(), frame(T.HEADERS, END_HEADERS | END_STREAM, 1, 0x80)],
    { goaway: 'COMPRESSION_ERROR' },
  ],
]

/** A field of 3,000 bytes in the table, and then a reference to it for each byte. */
const bomb = (references: number): Buffer =>
  Buffer.from([0x40, 0x01, 0x61, 0x7f, 0xb9, 0x16, ...Buffer.alloc(3000, 'b'), ...Buffer.alloc(references, 0xbe)])
const times = (count: number, of: (i: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => of(i)))
const resets = (i: number): Buffer => Buffer.concat([open(2 * i + 1), encodeReset(2 * i + 1, 8)])

const abuseCases: readonly Case[] = [
  ['rapid reset', [times(8000, resets)], { goaway: 'ENHANCE_YOUR_CALM' }],
  ['five thousand cancelled calls', [times(5000, resets)], 'goes on'],
  [
    'a flood of malformed requests',
    [times(8000, (i) => headersOf(2 * i + 1, [['A', 'b']]))],
    { goaway: 'ENHANCE_YOUR_CALM' },
  ],
  ['a flood of pings', [times(1100, () => sized(T.PING, 0, 0, 8))], { goaway: 'ENHANCE_YOUR_CALM' }],
  ['a flood of settings', [times(110, () => encodeSettings([]))], { goaway: 'ENHANCE_YOUR_CALM' }],
  ['a flood of acknowledgements', [times(110, () => frame(T.SETTINGS, ACK, 0))], { goaway: 'ENHANCE_YOUR_CALM' }],
  ['a flood of empty DATA', [open(1), times(1100, () => frame(T.DATA, 0, 1))], { goaway: 'ENHANCE_YOUR_CALM' }],
  ['a flood of PRIORITY', [times(11_000, () => sized(T.PRIORITY, 0, 1, 5))], { goaway: 'ENHANCE_YOUR_CALM' }],
  ['a flood of unknown frames', [times(11_000, () => frame(0x77, 0, 0))], { goaway: 'ENHANCE_YOUR_CALM' }],
  [
    'a flood of DATA for a stream that is gone',
    [open(1), encodeReset(1, 8), times(8000, () => dataOf(1))],
    { goaway: 'ENHANCE_YOUR_CALM' },
  ],
  [
    'a flood of CONTINUATION',
    [frame(T.HEADERS, 0, 1, ...liveBlock), times(40, () => frame(T.CONTINUATION, 0, 1))],
    { goaway: 'ENHANCE_YOUR_CALM' },
  ],
  [
    'a header block without end',
    [sized(T.HEADERS, 0, 1, 60_000), sized(T.CONTINUATION, 0, 1, 6000)],
    { goaway: 'ENHANCE_YOUR_CALM' },
  ],
  ['a frame of headers that is too long', [announced(T.HEADERS, 1, 70_000)], { goaway: 'ENHANCE_YOUR_CALM' }],
  ['too many headers for one request', [requestWith(['x-long', 'x'.repeat(17_000)])], { status: '431' }],
  [
    'a short block that says too much',
    [frame(T.HEADERS, END_HEADERS | END_STREAM, 1, ...bomb(50)), ask(3)],
    { grpc: '0', on: 3 },
  ],
  [
    'a short block that says far too much',
    [frame(T.HEADERS, END_HEADERS | END_STREAM, 1, ...bomb(20_000))],
    { goaway: 'ENHANCE_YOUR_CALM' },
  ],
]

describe('HTTP/2', { timeout: 60_000 }, () => {
  let fixture: GrpcFixture
  before(async () => {
    fixture = await GrpcFixture.start({ maxPingStrikes: 0 })
  })
  after(() => fixture.close())

  const groups = {
    frames: frameCases,
    settings: settingsCases,
    windows: windowCases,
    streams: streamCases,
    messages: messageCases,
    HPACK: hpackCases,
    abuse: abuseCases,
  }
  for (const each of connectionCases) {
    test(`connection: ${each[0]}`, () => converse(fixture.port, Buffer.alloc(0), each))
  }
  for (const [group, cases] of Object.entries(groups)) {
    for (const each of cases) test(`${group}: ${each[0]}`, () => converse(fixture.port, greeting, each))
  }

  test('connection: the server begins with its settings and acknowledges those of the client', async () => {
    const client = Http2RawClient.connect(fixture.port)
    client.send(greeting)
    const isAck = (found: Frame): boolean => found.type === T.SETTINGS && found.flags === ACK
    assert.ok(await client.find(isAck))
    assert.deepEqual([client.frames[0]?.type, client.frames[0]?.flags], [T.SETTINGS, 0])
    client.destroy()
  })

  test('connection: everything may arrive byte by byte', async () => {
    const client = Http2RawClient.connect(fixture.port)
    for (const byte of Buffer.concat([greeting, ask(1)])) {
      client.send(Buffer.of(byte))
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.equal(await client.trailer(1, 'grpc-status'), '0')
    client.destroy()
  })

  test('streams: more at a time than were agreed are refused, and may come later', async () => {
    const client = Http2RawClient.connect(fixture.port)
    const last = 2 * maxConcurrentStreams + 1
    client.send(
      greeting,
      times(maxConcurrentStreams, (i) => open(2 * i + 1)),
      ask(last),
    )
    const refused = await client.ofType(T.RST_STREAM, last)
    assert.equal(refused?.payload.readUInt32BE(0), errorCodes.REFUSED_STREAM)
    client.send(encodeReset(1, errorCodes.CANCEL), ask(last + 2))
    assert.equal(await client.trailer(last + 2, 'grpc-status'), '0')
    client.destroy()
    await client.closed
  })

  test('abuse: answers in crumbs', async () => {
    const client = Http2RawClient.connect(fixture.port)
    client.send(greeting)
    const calls = times(7000, (i) => ask(2 * i + 1))
    // Every answer has to be sent byte by byte.
    for (const bytes of [1, 2, 3, 4]) {
      client.send(setting(settingIds.INITIAL_WINDOW_SIZE, bytes), ...(bytes === 1 ? [calls] : []))
      const acknowledged = ({ type, flags }: Frame): boolean => type === T.SETTINGS && flags === ACK
      await client.until(() => client.frames.filter(acknowledged).length > bytes)
    }
    await requireOutcome(client, { goaway: 'ENHANCE_YOUR_CALM' })
  })

  test('windows: an answer waits for its window, byte by byte where it must', async () => {
    const client = Http2RawClient.connect(fixture.port)
    client.send(greeting, setting(settingIds.INITIAL_WINDOW_SIZE, 0), ask(1))
    await requireAlive(client)
    const dataFrames = (): Frame[] => client.frames.filter(({ type }) => type === T.DATA)
    assert.equal(dataFrames().length, 0)
    for (let bytes = 1; bytes <= 3; bytes++) {
      client.send(encodeWindowUpdate(1, 1))
      await client.until(() => dataFrames().length === bytes)
      assert.equal(dataFrames().at(-1)?.payload.length, 1)
    }
    // Below zero: what was agreed later takes away what was left.
    client.send(encodeWindowUpdate(1, 2), setting(settingIds.INITIAL_WINDOW_SIZE, 1000))
    assert.equal(await client.trailer(1, 'grpc-status'), '0')
    assert.equal(Buffer.concat(dataFrames().map(({ payload }) => payload)).toString('hex'), '00000000020801')
    client.destroy()
  })
})
