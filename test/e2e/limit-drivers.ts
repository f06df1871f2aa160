// How each limit of docs/reference/limits.md is driven over its edge: by a function against one real server whose limits are small,
// or by a test that drives the limit already.

import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import {
  clientPreface,
  encodePing,
  encodeSettings,
  frameTypes,
  settingIds,
} from '../../src/transport/http2/http2-format.ts'
import { encodeMessage } from '../../src/protocol/grpc/message-codec.ts'
import { exchange, RawConnection, type RawAnswer } from '../conformance/http-raw-client.ts'
import { dataOf, greeting, headersOf, Http2RawClient, requestFields } from '../conformance/http2-raw-client.ts'
import { until } from '../until.ts'
import { limitsDrivenElsewhere, type DrivenElsewhere } from './limits-driven-elsewhere.ts'
import type { ServerProcess } from './server-process.ts'

/** Flags of the server that the drivers run against. */
export const smallLimits: readonly string[] = [
  '--allow-fault-injection=true',
  '--http-max-input-size=8000000',
  '--http-max-header-size=2048',
  '--http-headers-timeout-secs=0.5',
  // Longer than a busy machine keeps a client from the next piece of its body.
  '--http-body-idle-timeout-secs=2',
  '--http-keep-alive-timeout-secs=1.5',
  '--http-max-connections=30',
  '--grpc-max-message-size=6000000',
  '--grpc-body-idle-timeout-secs=0.5',
  '--grpc-idle-timeout-secs=1.5',
  '--grpc-max-connections=30',
  '--grpc-write-idle-timeout-secs=0.5',
  '--grpc-keepalive-time=2000',
  '--grpc-keepalive-timeout=300',
  '--grpc-max-stream-backlog=65536',
  '--max-request-tensors=4',
  '--max-tensor-rank=4',
  '--max-request-parameters=4',
  '--max-request-id-bytes=16',
  '--client-memory-limit=12MB',
  '--default-max-queue-size=2',
  '--model-control-mode=explicit',
  '--load-model=*',
  '--allow-client-shared-memory=true',
]

type Driver = (server: ServerProcess) => Promise<void>

/* --- HTTP --- */

const infer = '/v2/models/identity_fp32/infer'
const input = { name: 'INPUT0', datatype: 'FP32', shape: [1, 1], data: [1] }

async function answerTo({ url }: ServerProcess, target: string, body: string | Buffer, headers = {}): Promise<string> {
  const response = await fetch(url + target, { method: 'POST', body: new Uint8Array(Buffer.from(body)), headers })
  return `${response.status} ${await response.text()}`
}

/** A request of JSON whose answer must match. */
const posts =
  (target: string, body: unknown, expected: RegExp): Driver =>
  async (server) =>
    assert.match(await answerTo(server, target, JSON.stringify(body)), expected)

/** Raw bytes, and the answer that must come. */
const sends =
  (wire: string, status: number, expected: RegExp): Driver =>
  async ({ port }) => {
    const answer = await exchange(port, wire, 'POST')
    assert.ok(answer !== 'closed', 'closed without an answer')
    assert.equal(answer.status, status)
    assert.match(answer.body.toString(), expected)
  }

const closes =
  (wire: string): Driver =>
  async ({ port }) => {
    const connection = new RawConnection(port)
    connection.send(wire)
    await connection.closed()
  }

const head = (target: string, more: string): string => `POST ${target} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`

async function driveConnections({ port }: ServerProcess): Promise<void> {
  const connections = Array.from({ length: 40 }, () => new RawConnection(port))
  for (const { socket } of connections) socket.write('GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n')
  const answers = await Promise.all(connections.map((each): Promise<RawAnswer | 'closed'> => each.answer()))
  for (const connection of connections) connection.destroy()
  const closed = answers.filter((answer) => answer === 'closed').length
  assert.ok(closed >= 10, `${closed} of 40 connections were closed`)
}

async function driveQueue(server: ServerProcess): Promise<void> {
  const body = JSON.stringify({ inputs: [input] })
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => answerTo(server, '/v2/models/identity_slow/infer', body)),
  )
  assert.ok(
    answers.some((answer) => /^503 .*Exceeds maximum queue size/.test(answer)),
    answers.join('\n'),
  )
  assert.ok(answers.some((answer) => answer.startsWith('200 ')))
}

/** A compressed body of zeros that becomes larger than four mebibytes. */
async function driveGrowth(server: ServerProcess): Promise<void> {
  const answer = await answerTo(server, infer, gzipSync(Buffer.alloc(7_000_000, ' ')), { 'Content-Encoding': 'gzip' })
  assert.match(answer, /^400 .*100 times/)
}

const loads = (config: unknown, expected: RegExp): Driver =>
  posts('/v2/repository/models/identity_fp32/load', { parameters: { config: JSON.stringify(config) } }, expected)

const identityConfig = {
  backend: 'identity',
  max_batch_size: 8,
  input: [{ name: 'INPUT0', data_type: 'TYPE_FP32', dims: [-1] }],
  output: [{ name: 'OUTPUT0', data_type: 'TYPE_FP32', dims: [-1] }],
}

/** What the server holds for its clients, by its own count. */
async function heldBytes({ metricsAddress }: ServerProcess, kind: 'answers' | 'requests'): Promise<number> {
  const page = await (await fetch(`http://${metricsAddress}/metrics`)).text()
  return Number(new RegExp(`^galatea_client_memory_bytes\\{kind="${kind}"\\} (\\d+)`, 'm').exec(page)?.[1])
}

/** Far more answers than the system takes for a client that reads none. */
async function driveUnread(server: ServerProcess): Promise<void> {
  const connection = new RawConnection(server.port)
  connection.socket.pause()
  connection.send('GET /v2/models/stats HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(10_000))
  const held = await until(() => heldBytes(server, 'answers'), 'an answer that is not taken', { everyMs: 50 })
  connection.destroy()
  assert.ok(held < 256 * 1024, `${held} bytes are held`)
}

async function driveMemory(server: ServerProcess): Promise<void> {
  // Two bodies of which only the first bytes have come hold their whole size; the third has no room.
  const wire = head(infer, 'Content-Length: 4400000\r\n') + ' '
  const holders = [0, 1].map(() => new RawConnection(server.port))
  for (const holder of holders) holder.send(wire + ' '.repeat(4_300_000))
  await until(async () => (await heldBytes(server, 'requests')) > 8_000_000, 'two bodies that are held', {
    everyMs: 20,
  })
  const answer = await exchange(server.port, wire, 'POST')
  for (const holder of holders) holder.destroy()
  assert.ok(answer !== 'closed' && answer.status === 503, JSON.stringify(answer))
  assert.ok(answer.headers['retry-after'] !== undefined)
  assert.match(answer.body.toString(), /--client-memory-limit/)
}

/* --- gRPC --- */

const call = (name: string): [string, string][] => requestFields(`/inference.GRPCInferenceService/${name}`)

const framed = (message: Buffer): Buffer => {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

/** One call with these bytes; its status and message must match. */
const answers =
  (name: string, bytes: () => Buffer, status: number, expected: RegExp, fields = call(name)): Driver =>
  async ({ grpcPort }) => {
    const client = Http2RawClient.connect(grpcPort)
    const body = bytes()
    const pieces = Array.from({ length: Math.ceil(body.length / 16_384) }, (_, index) => {
      const piece = body.subarray(index * 16_384, (index + 1) * 16_384)
      return dataOf(1, piece, (index + 1) * 16_384 >= body.length ? 1 : 0)
    })
    client.send(greeting, headersOf(1, fields), ...pieces)
    const found = await client.trailer(1, 'grpc-status')
    const message = await client.trailer(1, 'grpc-message')
    client.destroy()
    assert.equal(found, String(status), message ?? '')
    assert.match(decodeURIComponent(message ?? ''), expected)
  }

async function drivePause({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  client.send(greeting, headersOf(1, call('ModelInfer')), dataOf(1, Buffer.from([0, 0, 0, 1, 0, 9]), 0))
  assert.equal(await client.trailer(1, 'grpc-status'), '4')
  client.destroy()
}

async function driveIdle({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  client.send(greeting)
  assert.ok((await client.ofType(frameTypes.GOAWAY)) !== null)
  await client.closed
}

async function driveGrpcConnections({ grpcPort }: ServerProcess): Promise<void> {
  const clients = Array.from({ length: 40 }, () => Http2RawClient.connect(grpcPort))
  for (const client of clients) client.send(greeting)
  const greeted = await Promise.all(clients.map((client) => client.ofType(frameTypes.SETTINGS)))
  for (const client of clients) client.destroy()
  const closed = greeted.filter((frame) => frame === null).length
  assert.ok(closed >= 10, `${closed} of 40 connections were closed`)
}

/** Headers beyond the bound get HTTP's own status: the call is no call of gRPC yet. */
async function driveGrpcHeaders({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  client.send(greeting, headersOf(1, [...call('ServerLive'), ['x-long', 'x'.repeat(20_000)]]))
  assert.equal(await client.trailer(1, ':status'), '431')
  client.destroy()
}

/** The client opens no window, so its answer waits. */
async function driveGrpcUnread({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  const message = framed(encodeMessage('ModelConfigRequest', { name: 'identity_fp32' }))
  const closed = encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, 0]])
  client.send(clientPreface, closed, headersOf(1, call('ModelConfig')), dataOf(1, message))
  const reset = await client.find(({ type, streamId }) => type === frameTypes.RST_STREAM && streamId === 1)
  client.destroy()
  assert.ok(reset !== null)
}

/** Reflection answers short messages with long ones, and this client opens no window for them. */
async function driveBacklog(server: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(server.grpcPort)
  const symbol = { fileContainingSymbol: 'inference.GRPCInferenceService' }
  const message = framed(encodeMessage('ServerReflectionRequest', symbol))
  const closed = encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, 0]])
  const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'
  const messages = dataOf(1, Buffer.concat(Array<Buffer>(300).fill(message)), 0)
  client.send(clientPreface, closed, headersOf(1, requestFields(path)), messages)
  const held = await until(() => heldBytes(server, 'answers'), 'an answer that is not taken', { everyMs: 20 })
  client.destroy()
  assert.ok(held < 65_536 + 64 * 1024, `${held} bytes are held`)
}

/** A stream is open, so the server pings; this client answers no ping. */
async function driveSilence({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  client.send(greeting, headersOf(1, call('ModelStreamInfer')))
  await client.closed
}

/** A model with a long queue, which takes 100 ms for eight requests; the stream brings 600. */
async function driveStream(server: ServerProcess): Promise<void> {
  const config = {
    ...identityConfig,
    dynamic_batching: { default_queue_policy: { max_queue_size: 5000 } },
    parameters: { execute_delay_ms: { string_value: '100' } },
  }
  await loads(config, /^200 /)(server)
  const message = encodeMessage('ModelInferRequest', {
    modelName: 'identity_fp32',
    inputs: [{ name: 'INPUT0', datatype: 'FP32', shape: [1, 1] }],
    rawInputContents: [Buffer.alloc(4)],
  })
  const client = Http2RawClient.connect(server.grpcPort)
  client.send(greeting, headersOf(1, call('ModelStreamInfer')))
  for (let sent = 0; sent < 600; sent += 100) {
    client.send(dataOf(1, Buffer.concat(Array<Buffer>(100).fill(framed(message))), 0))
  }
  const pattern = /^nv_inference_pending_request_count\{model="identity_fp32".*\} (\d+)/m
  const pending = async (): Promise<number> =>
    Number(pattern.exec(await (await fetch(`http://${server.metricsAddress}/metrics`)).text())?.[1])
  const most = await until(async () => (await pending()) > 200 && pending(), 'a full stream', { everyMs: 20 })
  client.destroy()
  await loads(identityConfig, /^200 /)(server)
  assert.ok(most <= 256, `${most} requests of one stream wait`)
}

async function driveCalls({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  const heads = Array.from({ length: 1001 }, (_, index) => headersOf(2 * index + 1, call('ModelStreamInfer')))
  client.send(greeting, ...heads)
  const reset = await client.find(({ type }) => type === frameTypes.RST_STREAM)
  client.destroy()
  assert.equal(reset?.payload.readUInt32BE(0), 7)
}

async function driveFrames({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  client.send(greeting, ...Array<Buffer>(200).fill(encodeSettings([])))
  const goaway = await client.ofType(frameTypes.GOAWAY)
  assert.equal(goaway?.payload.readUInt32BE(4), 11)
}

async function drivePings({ grpcPort }: ServerProcess): Promise<void> {
  const client = Http2RawClient.connect(grpcPort)
  client.send(greeting, ...Array<Buffer>(10).fill(encodePing(Buffer.alloc(8), false)))
  const goaway = await client.ofType(frameTypes.GOAWAY)
  assert.equal(goaway?.payload.readUInt32BE(4), 11)
}

const limitOf = (name: string): RegExp => new RegExp(`^400 .*--${name}`)

/** By the first cell of the row. */
export const limitDrivers: Readonly<Record<string, Driver | DrivenElsewhere>> = {
  ...limitsDrivenElsewhere,
  // Size of one request
  'bytes of an HTTP body, as sent and decompressed': sends(
    head(infer, 'Content-Length: 900000000\r\n'),
    400,
    /--http-max-input-size/,
  ),
  'bytes of an HTTP body without tensors or models': posts(
    '/v2/logging',
    { a: 'x'.repeat(1_048_576) },
    /^400 .*1048576/,
  ),
  'bytes of an HTTP request line and its headers': sends(
    head(infer, `X-Long: ${'x'.repeat(3000)}\r\n`),
    431,
    /--http-max-header-size/,
  ),
  'line ends before an HTTP request': closes('\r\n'.repeat(100)),
  'bytes of a gRPC message with tensors or models, also after decompression': answers(
    'ModelInfer',
    () => Buffer.from([0, 0x7f, 0, 0, 0]),
    8,
    /--grpc-max-message-size/,
  ),
  'bytes of every other gRPC message, also after decompression': answers(
    'ModelMetadata',
    () => Buffer.from([0, 0, 0x20, 0, 0]),
    8,
    /1048576/,
  ),
  'bytes of the headers of a gRPC call': driveGrpcHeaders,
  'fields of a gRPC message, known or not, each time they come': answers(
    'ModelMetadata',
    () => framed(Buffer.alloc(60_000, Buffer.from([0x0a, 1, 0x61]))),
    3,
    /16384|fields/,
  ),
  'growth of a compressed request above 4 MiB': driveGrowth,
  'inputs, and outputs, of one request': posts(
    infer,
    { inputs: Array.from({ length: 5 }, () => input) },
    limitOf('max-request-tensors'),
  ),
  'dimensions of a tensor': posts(
    infer,
    { inputs: [{ ...input, shape: [1, 1, 1, 1, 1] }] },
    limitOf('max-tensor-rank'),
  ),
  'parameters of one request': posts(
    infer,
    { parameters: { a: 1, b: 1, c: 1, d: 1, e: 1 }, inputs: [input] },
    limitOf('max-request-parameters'),
  ),
  'bytes of a request id': posts(infer, { id: 'x'.repeat(17), inputs: [input] }, limitOf('max-request-id-bytes')),
  'bytes of a correlation id': posts(
    infer,
    { parameters: { sequence_id: 'x'.repeat(129) }, inputs: [input] },
    /^400 .*128/,
  ),
  'digits of a number in a text (versions, trace settings)': posts(
    '/v2/trace/setting',
    { trace_rate: '9'.repeat(21) },
    /^400 /,
  ),
  'rows of a request to a model that batches': posts(
    infer,
    { inputs: [{ ...input, shape: [0, 1], data: [] }] },
    /^400 /,
  ),

  // Memory held for clients
  'memory held for all clients: request bodies at their inflated size, halves of messages, requests that wait, answers that are compressed or not read':
    driveMemory,
  'unread answers of one gRPC call': driveBacklog,
  'unread answers of one HTTP connection': driveUnread,
  'requests of one gRPC stream under way': driveStream,
  'messages without an answer on one gRPC connection, inferences and loads apart': driveBacklog,

  // Time and turns
  'time to send the headers of an HTTP request': sends('GET /v2 HTTP/1.1\r\n', 408, /--http-headers-timeout-secs/),
  'pause in an HTTP body': sends(head(infer, 'Content-Length: 9\r\n'), 408, /--http-body-idle-timeout-secs/),
  'pause in a gRPC message, or before the message of a unary call': drivePause,
  'time a gRPC client may take less than 1 KiB of the answers of a call': driveGrpcUnread,
  'time an HTTP connection may be idle': closes('GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n'),
  'time a gRPC connection may be without a call': driveIdle,

  // Connections
  'connections of the HTTP port': driveConnections,
  'connections of the gRPC port': driveGrpcConnections,
  'calls at a time on one gRPC connection': driveCalls,
  'frames that carry nothing, on one gRPC connection': driveFrames,
  'pings of one gRPC connection': drivePings,
  'time a gRPC client may leave a ping of the server without answer': driveSilence,

  // Models
  'requests that wait for a model': driveQueue,
  'characters, and lists and objects, of the configuration in a load request': loads(
    { ...identityConfig, instance_group: Array.from({ length: 9000 }, () => ({})) },
    /^400 .*more than 8192 lists and objects/,
  ),
  'instances of a model, all groups and devices together': loads(
    { ...identityConfig, instance_group: [{ count: 2_147_483_647, kind: 'KIND_CPU' }] },
    /^400 .*1024/,
  ),
  'places for sequences: `max_batch_size` or `max_candidate_sequences` × instances': loads(
    { ...identityConfig, sequence_batching: { oldest: { max_candidate_sequences: 2_000_000_000 } } },
    /^400 .*1048576/,
  ),
  'bytes of a state at the start of a sequence; rows of a warm-up sample; executions, rows and bytes of all samples':
    loads(
      {
        ...identityConfig,
        model_warmup: [{ name: 'w', batch_size: 70_000, inputs: { INPUT0: { data_type: 'TYPE_FP32', dims: [1], zero_data: true } } }], // prettier-ignore
      },
      /^400 .*65536/,
    ),
  'model files that a load request brings': posts(
    '/v2/repository/models/uploaded/load',
    { parameters: { config: JSON.stringify(identityConfig), 'file:1/model.bin': '' } },
    /^501 .*--allow-model-uploads/,
  ),

  // Rollouts
  'entries of one call of feedback': posts(
    '/v2/models/identity_fp32/feedback',
    { feedback: Array.from({ length: 1001 }, (_, index) => ({ id: String(index), correct: true })) },
    /^400 .*at most 1000 entries/,
  ),
  'labels of a model': posts(
    '/v2/models/identity_fp32/labels',
    Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`label${index}`, 1])),
    /^400 .*at most 100 labels/,
  ),
  'steps, rules and metrics of a rollout': posts(
    '/v2/rollouts',
    { model: 'identity_fp32', steps: Array.from({ length: 65 }, () => ({ weight: 1, for: '1s' })) },
    /^400 .*64/,
  ),
  'time that a fault is in force, and its delay': posts(
    '/v2/faults',
    { share: 5, delay_ms: 1, for: '2h' },
    /^400 .*1 ?h/,
  ),
}
