// What a hostile client sends: one row per kind of attack. A connection of the attacker sends the pieces of one row, and the
// attacker (attacker.ts) shares its bandwidth between all connections. The rows know the server's protocols and nothing else.

import { gzipSync } from 'node:zlib'
import { encodeMessage, type MessageValue } from '../../src/protocol/grpc/message-codec.ts'
import { encodeHeaderBlock } from '../../src/transport/http2/hpack-encoder.ts'
import {
  clientPreface,
  encodeFrame,
  encodePing,
  encodeReset,
  encodeSettings,
  errorCodes,
  frameFlags,
  frameTypes,
  settingIds,
} from '../../src/transport/http2/http2-format.ts'

/** A piece to send at once; null: the connection waits for its next turn. */
type Pieces = Generator<Buffer | null>

export type Attack = {
  readonly port: 'http' | 'grpc'
  /** False: the connection takes no byte of its answers. */
  readonly reads: boolean
  /** What one connection sends. After the last piece the connection stays open for a while and says nothing. */
  readonly pieces: () => Pieces
}

const mebibyte = 1024 * 1024

/* --- HTTP --- */

const httpHead = (method: string, target: string, headers: string, bodyBytes: number): string =>
  `${method} ${target} HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Length: ${bodyBytes}\r\n\r\n`

const get = (target: string): Buffer => Buffer.from(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n\r\n`)

function post(target: string, body: Buffer, headers = ''): Buffer {
  return Buffer.concat([Buffer.from(httpHead('POST', target, headers, body.length)), body])
}

const zipped = (target: string, body: string | Buffer, headers = ''): Buffer =>
  post(target, gzipSync(body), `Content-Encoding: gzip\r\n${headers}`)

const inferJson = (shape: readonly number[], data: string, more = ''): string =>
  `{${more}"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[${shape.join(',')}],"data":[${data}]}]}`

const inferTarget = (model: string): string => `/v2/models/${model}/infer`

/** A binary tensor of so many zero bytes, which gzip makes a thousand times smaller. */
function zippedTensor(model: string, bytes: number): Buffer {
  const json = `{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,${bytes / 4}],"parameters":{"binary_data_size":${bytes}}}]}`
  return zipped(
    inferTarget(model),
    Buffer.concat([Buffer.from(json), Buffer.alloc(bytes)]),
    `Inference-Header-Content-Length: ${json.length}\r\n`,
  )
}

/** No rows, and the bytes of one. */
const zeroRows = (() => {
  const tensor = (name: string): string =>
    `{"name":"${name}","datatype":"INT32","shape":[0,16],"parameters":{"binary_data_size":64}}`
  const json = `{"inputs":[${tensor('INPUT0')},${tensor('INPUT1')}]}`
  const body = Buffer.concat([Buffer.from(json), Buffer.alloc(128)])
  return post(inferTarget('simple'), body, `Inference-Header-Content-Length: ${json.length}\r\n`)
})()

/** Keys that must be unescaped before they can be compared: `{"\u0061":0,…}`. */
const escapedKeys = (): string => `{${'"\\u0069\\u0064":"",'.repeat(12_000)}"inputs":[]}`

/** Made at the first use and kept: a bomb costs its maker more than the attacker has. */
function kept(make: () => Buffer): () => Buffer {
  let made: Buffer | null = null
  return () => (made ??= make())
}

function again(make: () => Buffer): Attack['pieces'] {
  const piece = kept(make)
  return function* (): Pieces {
    for (;;) yield piece()
  }
}

function* once(...pieces: readonly Buffer[]): Pieces {
  yield* pieces
}

/** One byte at a time, with pauses. */
function* drip(bytes: Buffer, turnsBetween: number): Pieces {
  for (const byte of bytes) {
    yield Buffer.of(byte)
    for (let turn = 0; turn < turnsBetween; turn++) yield null
  }
}

const http = (pieces: Attack['pieces'], reads = true): Attack => ({ port: 'http', reads, pieces })

const httpAttacks: Readonly<Record<string, Attack>> = {
  'pipelined statistics, unread': http(
    again(() => get('/v2/models/stats')),
    false,
  ),
  'pipelined metadata, unread': http(
    again(() => get('/v2/models/simple/config')),
    false,
  ),
  'pipelined inference, unread': http(
    again(() => post(inferTarget('identity_fp32'), Buffer.from(inferJson([1, 512], '0.1,'.repeat(511) + '1')))),
    false,
  ),
  'pipelined openapi, unread': http(
    again(() => get('/v2/openapi.json')),
    false,
  ),
  'heads byte by byte': http(() => drip(get(`/v2/health/live?${'x'.repeat(4000)}`), 20)),
  'line ends for ever': http(() => drip(Buffer.alloc(4000, '\r\n'), 20)),
  'half bodies': http(() =>
    once(Buffer.from(httpHead('POST', inferTarget('simple'), '', 60 * mebibyte)), Buffer.alloc(4096, ' ')),
  ),
  'half chunks': http(() =>
    once(
      Buffer.from(
        `POST ${inferTarget('simple')} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3c00000\r\n`,
      ),
      Buffer.alloc(4096, ' '),
    ),
  ),
  'chunks of one byte': http(function* (): Pieces {
    yield Buffer.from(`POST ${inferTarget('simple')} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n`)
    for (;;) yield Buffer.from('1\r\n \r\n'.repeat(200))
  }),
  'bombs of tensors': http(again(() => zippedTensor('identity_fp32', 60 * mebibyte))),
  'bombs in a queue': http(again(() => zippedTensor('identity_slow', 32 * mebibyte))),
  'bombs of digits': http(
    again(() => zipped(inferTarget('identity_fp32'), inferJson([1, 1], '9'.repeat(32 * mebibyte)))),
  ),
  'bombs of slow numbers': http(
    again(() =>
      zipped(
        inferTarget('identity_fp32'),
        inferJson([1, 500_000], '0.1234567890123456789012345678,'.repeat(499_999) + '1'),
      ),
    ),
  ),
  'bombs of strings': http(
    again(() => zipped(inferTarget('identity_bytes'), inferJson([1, 4_000_000], '"",'.repeat(3_999_999) + '""'))),
  ),
  'escaped keys, compressed and pipelined': http(
    again(() => Buffer.concat(Array<Buffer>(20).fill(zipped(inferTarget('simple'), escapedKeys())))),
  ),
  'deep JSON': http(again(() => zipped(inferTarget('simple'), '['.repeat(8 * mebibyte)))),
  'many parameters': http(
    again(() => zipped(inferTarget('simple'), `{"parameters":{${'"a":1,'.repeat(2_000_000)}"b":1},"inputs":[]}`)),
  ),
  'digits in settings': http(again(() => zipped('/v2/trace/setting', `{"trace_rate":"${'9'.repeat(mebibyte)}"}`))),
  'headers that the pattern hates': http(
    again(() =>
      Buffer.from(
        `GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n${Array.from({ length: 60 }, (_, i) => `x-${'a'.repeat(100)}${i}!: 1\r\n`).join('')}\r\n`,
      ),
    ),
  ),
  'no rows': http(function* (): Pieces {
    for (;;) {
      yield zeroRows
      yield null
    }
  }),
  'large texts to generate': http(
    again(() => zipped('/v2/models/identity_bytes/generate', `{"INPUT0":"${'a'.repeat(40 * mebibyte)}"}`)),
  ),
  'idle HTTP': http(() => once(get('/v2/health/live'))),
}

/* --- gRPC --- */

const rpc = (name: string): string => `/inference.GRPCInferenceService/${name}`
const reflection = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'

const callHead = (id: number, path: string, isZipped = false): Buffer =>
  encodeFrame(
    frameTypes.HEADERS,
    frameFlags.END_HEADERS,
    id,
    encodeHeaderBlock([
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', path],
      [':authority', 'localhost'],
      ['content-type', 'application/grpc'],
      ['te', 'trailers'],
      ...(isZipped ? [['grpc-encoding', 'gzip'] as const] : []),
    ]),
  )

function framed(message: Buffer, isZipped = false): Buffer {
  const prefix = Buffer.alloc(5)
  prefix[0] = isZipped ? 1 : 0
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

/** DATA frames of at most 16 KiB: the least that every server takes. */
function dataOf(id: number, bytes: Buffer, isEnd: boolean): Buffer {
  const frames: Buffer[] = []
  for (let at = 0; at === 0 || at < bytes.length; at += 16_384) {
    const isLast = at + 16_384 >= bytes.length
    const flags = isEnd && isLast ? frameFlags.END_STREAM : 0
    frames.push(encodeFrame(frameTypes.DATA, flags, id, bytes.subarray(at, at + 16_384)))
  }
  return Buffer.concat(frames)
}

const opening = (...settings: (readonly [number, number])[]): Buffer =>
  Buffer.concat([clientPreface, encodeSettings(settings)])
const noWindow = [settingIds.INITIAL_WINDOW_SIZE, 0] as const

const inferMessage = (model: string, floats: number, more: MessageValue = {}): Buffer =>
  encodeMessage('ModelInferRequest', {
    modelName: model,
    inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1, floats] }],
    rawInputContents: [Buffer.alloc(floats * 4)],
    ...more,
  })

const zeroRowMessage = (): Buffer =>
  encodeMessage('ModelInferRequest', {
    modelName: 'simple',
    inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [0, 16] })),
    rawInputContents: [Buffer.alloc(64), Buffer.alloc(64)],
  })

/** The same field again and again: `id`, which only counts once. */
const repeatedField = (tag: number, megabytes: number): Buffer =>
  Buffer.alloc(megabytes * mebibyte, Buffer.from([tag, 1, 0x61]))

/** New calls on one connection, each with this message. */
function calls(
  path: string,
  make: () => Buffer,
  isZipped = false,
  settings: (readonly [number, number])[] = [],
): Attack['pieces'] {
  const frame = kept(() => framed(isZipped ? gzipSync(make()) : make(), isZipped))
  return function* (): Pieces {
    yield opening(...settings)
    for (let id = 1; ; id += 2) yield Buffer.concat([callHead(id, path, isZipped), dataOf(id, frame(), true)])
  }
}

/** One call that brings message after message. */
function stream(path: string, make: () => Buffer): Attack['pieces'] {
  const messages = kept(() => dataOf(1, Buffer.concat(Array<Buffer>(20).fill(framed(make()))), false))
  return function* (): Pieces {
    yield Buffer.concat([opening(noWindow), callHead(1, path)])
    for (;;) yield messages()
  }
}

const grpc = (pieces: Attack['pieces'], reads = true): Attack => ({ port: 'grpc', reads, pieces })

const grpcAttacks: Readonly<Record<string, Attack>> = {
  'unary calls without a window': grpc(
    calls(rpc('ModelInfer'), () => inferMessage('identity_fp32', 2048), false, [noWindow]),
  ),
  'statistics without a window': grpc(calls(rpc('ModelStatistics'), () => Buffer.alloc(0), false, [noWindow])),
  'inflated answers without a window': grpc(
    calls(rpc('ModelInfer'), () => inferMessage('identity_fp32', mebibyte), true, [noWindow]),
  ),
  'a stream without a window': grpc(stream(rpc('ModelStreamInfer'), () => inferMessage('identity_fp32', 64))),
  'reflection without a window': grpc(
    stream(reflection, () =>
      encodeMessage('ServerReflectionRequest', { fileContainingSymbol: 'inference.GRPCInferenceService' }),
    ),
  ),
  'unread gRPC': grpc(
    calls(rpc('ModelConfig'), () => encodeMessage('ModelConfigRequest', { name: 'simple' })),
    false,
  ),
  'half messages': grpc(function* (): Pieces {
    yield opening()
    const half = Buffer.from([0, 0x03, 0xff, 0xff, 0xff, 1])
    for (let id = 1; id < 2000; id += 2) {
      yield Buffer.concat([callHead(id, rpc('ModelInfer')), dataOf(id, half, false)])
    }
  }),
  'streams without a message': grpc(function* (): Pieces {
    yield opening()
    for (let id = 1; id < 20_000; id += 2) yield callHead(id, rpc('ModelStreamInfer'))
  }),
  'inflated messages': grpc(calls(rpc('ModelInfer'), () => inferMessage('identity_fp32', 14 * mebibyte), true)),
  'inflated messages in a queue': grpc(
    calls(rpc('ModelInfer'), () => inferMessage('identity_slow', 4 * mebibyte), true),
  ),
  'classification of everything': grpc(
    calls(
      rpc('ModelInfer'),
      () =>
        inferMessage('identity_fp32', 100_000, {
          outputs: [{ name: 'OUTPUT0', parameters: new Map([['classification', { int64Param: 100_000n }]]) }],
        }),
      true,
    ),
  ),
  'repeated ids': grpc(calls(rpc('ModelInfer'), () => repeatedField(0x1a, 48), true)),
  'repeated unknown fields': grpc(calls(rpc('ModelInfer'), () => repeatedField(0x7a, 48), true)),
  'repeated fields of a load': grpc(calls(rpc('RepositoryModelLoad'), () => repeatedField(0x0a, 48), true)),
  'digits of a trace rate': grpc(
    calls(
      rpc('TraceSetting'),
      () =>
        encodeMessage('TraceSettingRequest', { settings: new Map([['trace_rate', { value: ['9'.repeat(900_000)] }]]) }),
      true,
    ),
  ),
  'no rows over gRPC': grpc(calls(rpc('ModelInfer'), zeroRowMessage)),
  'calls that are reset at once': grpc(function* (): Pieces {
    yield opening()
    const message = dataOf(1, framed(inferMessage('identity_fp32', 16)), true).subarray(9)
    for (let id = 1; ; id += 2) {
      const data = encodeFrame(frameTypes.DATA, frameFlags.END_STREAM, id, message)
      yield Buffer.concat([callHead(id, rpc('ModelInfer')), data, encodeReset(id, errorCodes.CANCEL)])
    }
  }),
  pings: grpc(function* (): Pieces {
    yield opening()
    for (;;) yield Buffer.concat(Array<Buffer>(20).fill(encodePing(Buffer.alloc(8), false)))
  }),
  'half a preface': grpc(() => drip(clientPreface, 100)),
  'idle gRPC': grpc(() => once(opening())),
}

export const attacks: ReadonlyMap<string, Attack> = new Map(Object.entries({ ...httpAttacks, ...grpcAttacks }))
