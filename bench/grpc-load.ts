// A process that calls one server with gRPC and counts: over HTTP/2 frames by hand, so that the load costs less than what
// it measures. Ordered about by its parent with messages.

import net from 'node:net'
import {
  clientPreface,
  defaultWindowBytes,
  encodeFrame,
  encodePing,
  encodeSettings,
  encodeWindowUpdate,
  frameFlags,
  frameHeaderBytes,
  frameTypes,
  settingIds,
  settingsAck,
  writeFrameHeader,
} from '../src/transport/http2/http2-format.ts'
import { HpackDecoder } from '../src/transport/http2/hpack-decoder.ts'

export type GrpcLoadOrder =
  | {
      readonly kind: 'open'
      readonly port: number
      readonly connections: number
      readonly concurrency: number
      readonly message: Buffer
      readonly isStream: boolean
      /** '' for the method of v2 that runs a model. */
      readonly path: string
      /** Name and value. */
      readonly headers: readonly (readonly [string, string])[]
      /** With one of these every call must end. */
      readonly statuses: readonly number[]
    }
  | { readonly kind: 'run'; readonly seconds: number }
export type GrpcLoadResult = { readonly calls: number; readonly seconds: number; readonly p50Us: number }
export type GrpcLoadReport =
  | { readonly kind: 'ready' }
  | { readonly kind: 'ran'; readonly result: GrpcLoadResult }
  | { readonly kind: 'failed'; readonly reason: string }

const windowBytes = 2 ** 30

/** With every field kept in the server's table, as clients do: from the second call on each is one byte. */
function firstHead(path: string, headers: readonly (readonly [string, string])[]): Buffer {
  const kept = (name: string, value: string): Buffer =>
    Buffer.concat([Buffer.of(0x40, name.length), Buffer.from(name), Buffer.of(value.length), Buffer.from(value)])
  const pseudo = [Buffer.of(0x83, 0x86), kept(':path', path), kept(':authority', '127.0.0.1')]
  const common = [kept('content-type', 'application/grpc'), kept('te', 'trailers')]
  return Buffer.concat([...pseudo, ...common, ...headers.map(([name, value]) => kept(name, value))])
}

/** The newest of the kept fields has the index 62. */
const laterHead = (keptCount: number): Buffer =>
  Buffer.of(0x83, 0x86, ...Array.from({ length: keptCount }, (_, i) => 0x80 + 62 + keptCount - 1 - i))

/** One connection with some callers on it, each with one call, or one message of its stream, under way at a time. */
class LoadConnection {
  readonly #socket: net.Socket
  readonly #heads: readonly [first: Buffer, later: Buffer]
  readonly #statuses: ReadonlySet<string>
  readonly #isStream: boolean
  /** Message with its prefix. */
  readonly #body: Buffer
  readonly #decoder = new HpackDecoder()
  readonly #begun = new Map<number, number>()
  readonly #received = new Map<number, number>()
  #pending: Buffer | null = null
  #out: Buffer[] = []
  #nextId = 1
  #dataBytes = 0
  waits: number[] = []
  endMs = 0
  onIdle: (() => void) | null = null
  onFailure: ((reason: string) => void) | null = null

  constructor(order: Extract<GrpcLoadOrder, { kind: 'open' }>) {
    this.#isStream = order.isStream
    const v2Path = `/inference.GRPCInferenceService/${order.isStream ? 'ModelStreamInfer' : 'ModelInfer'}`
    const path = order.path === '' ? v2Path : order.path
    this.#heads = [firstHead(path, order.headers), laterHead(4 + order.headers.length)]
    this.#statuses = new Set(order.statuses.map(String))
    this.#body = Buffer.alloc(5 + order.message.length)
    this.#body.writeUInt32BE(order.message.length, 1)
    this.#body.set(order.message, 5)
    this.#socket = net.connect({ port: order.port, host: '127.0.0.1', noDelay: true })
    this.#socket.on('data', (chunk: Buffer) => this.#onChunk(chunk))
    this.#socket.on('error', (reason) => this.onFailure?.(String(reason)))
    this.#socket.write(
      Buffer.concat([
        clientPreface,
        encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, windowBytes]]),
        encodeWindowUpdate(0, windowBytes - defaultWindowBytes),
      ]),
    )
  }

  start(callers: number): void {
    for (let i = 0; i < callers; i++) this.#begin()
    this.#flush()
  }

  #begin(): void {
    const id = this.#nextId
    this.#nextId += 2
    const head = this.#heads[id === 1 ? 0 : 1]
    this.#out.push(encodeFrame(frameTypes.HEADERS, frameFlags.END_HEADERS, id, head))
    this.#ask(id)
  }

  #ask(id: number): void {
    const frame = Buffer.allocUnsafe(frameHeaderBytes + this.#body.length)
    const flags = this.#isStream ? 0 : frameFlags.END_STREAM
    frame.set(this.#body, writeFrameHeader(frame, 0, this.#body.length, frameTypes.DATA, flags, id))
    this.#out.push(frame)
    this.#begun.set(id, performance.now())
  }

  #flush(): void {
    if (this.#out.length === 0) return
    this.#socket.write(this.#out.length === 1 ? (this.#out[0] as Buffer) : Buffer.concat(this.#out))
    this.#out = []
  }

  #onChunk(chunk: Buffer): void {
    const data = this.#pending === null ? chunk : Buffer.concat([this.#pending, chunk])
    let at = 0
    while (at + frameHeaderBytes <= data.length) {
      const end = at + frameHeaderBytes + data.readUIntBE(at, 3)
      if (end > data.length) break
      const id = data.readUInt32BE(at + 5)
      this.#onFrame(data[at + 3] as number, data[at + 4] as number, id, data.subarray(at + frameHeaderBytes, end))
      at = end
    }
    this.#pending = at === data.length ? null : data.subarray(at)
    this.#flush()
  }

  #onFrame(type: number, flags: number, id: number, payload: Buffer): void {
    if (type === frameTypes.DATA) this.#onData(id, payload)
    else if (type === frameTypes.HEADERS) {
      const fields = this.#decoder.decode(payload, 0, payload.length, 64 * 1024)
      if ((flags & frameFlags.END_STREAM) !== 0) this.#onTrailers(id, fields)
    } else if (type === frameTypes.SETTINGS && (flags & frameFlags.ACK) === 0) this.#out.push(settingsAck)
    else if (type === frameTypes.PING && (flags & frameFlags.ACK) === 0) this.#out.push(encodePing(payload, true))
    else if (type === frameTypes.GOAWAY) this.onFailure?.('the server went away')
  }

  #onData(id: number, payload: Buffer): void {
    this.#dataBytes += payload.length
    if (this.#dataBytes > windowBytes / 2) {
      this.#out.push(encodeWindowUpdate(0, this.#dataBytes))
      this.#dataBytes = 0
    }
    if (!this.#isStream) return
    // One message is on its way at a time: its length is in the first piece.
    const left = (this.#received.get(id) ?? 5 + payload.readUInt32BE(1)) - payload.length
    if (left > 0) {
      this.#received.set(id, left)
      return
    }
    this.#received.delete(id)
    this.#note(id)
    if (performance.now() < this.endMs) this.#ask(id)
    else this.#out.push(encodeFrame(frameTypes.DATA, frameFlags.END_STREAM, id, Buffer.alloc(0)))
  }

  #onTrailers(id: number, fields: readonly string[]): void {
    const status = fields[fields.lastIndexOf('grpc-status') + 1]
    if (!this.#statuses.has(status ?? '')) this.onFailure?.(`status '${status}'`)
    if (!this.#isStream) {
      this.#note(id)
      if (performance.now() < this.endMs) this.#begin()
    }
    if (this.#begun.size === 0) this.onIdle?.()
  }

  #note(id: number): void {
    this.waits.push(performance.now() - (this.#begun.get(id) ?? 0))
    this.#begun.delete(id)
  }
}

let connections: LoadConnection[] = []
let concurrency = 0

const report = (message: GrpcLoadReport): void => void process.send?.(message)
const fail = (reason: unknown): void => report({ kind: 'failed', reason: String(reason) })

async function run(seconds: number): Promise<void> {
  const startMs = performance.now()
  await Promise.all(
    connections.map(
      (connection, i) =>
        new Promise<void>((resolve, reject) => {
          connection.waits = []
          connection.endMs = startMs + seconds * 1000
          connection.onIdle = resolve
          connection.onFailure = (reason) => reject(new Error(reason))
          const callers = Math.ceil((concurrency - i) / connections.length)
          if (callers > 0) connection.start(callers)
          else resolve()
        }),
    ),
  )
  const waits = connections.flatMap((connection) => connection.waits).toSorted((a, b) => a - b)
  const result = {
    calls: waits.length,
    seconds: (performance.now() - startMs) / 1000,
    p50Us: (waits[waits.length >> 1] ?? 0) * 1000,
  }
  report({ kind: 'ran', result })
}

process.on('message', (order: GrpcLoadOrder) => {
  if (order.kind === 'open') {
    concurrency = order.concurrency
    connections = Array.from({ length: order.connections }, () => new LoadConnection(order))
    report({ kind: 'ready' })
  } else run(order.seconds).catch(fail)
})
process.on('disconnect', () => process.exit(0))
