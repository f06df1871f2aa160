// A client of gRPC that sends its messages in turns, a piece of each, as gRPC's C++ core does: a server that is behind has parts of all of
// them. HTTP/2 frames by hand, so that it costs little; it keeps to the server's windows.

import type { Duplex } from 'node:stream'
import { RingQueue } from '../../src/base/ring-queue.ts'
import { HpackDecoder } from '../../src/transport/http2/hpack-decoder.ts'
import { encodeHeaderBlock } from '../../src/transport/http2/hpack-encoder.ts'
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
} from '../../src/transport/http2/http2-format.ts'
import { PeerSettings } from '../../src/transport/http2/peer-settings.ts'

/** What one message sends before the others have their turn. */
const pieceBytes = 64 * 1024
/** With so much in the socket nothing more is given to it. */
const mostUnwritten = 1024 * 1024
const ownWindowBytes = 2 ** 30
const mostStreams = 1000

type Call = { readonly id: number; readonly dueMs: number; sent: number; window: number; hasTurn: boolean }

const head = encodeHeaderBlock([
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/inference.GRPCInferenceService/ModelInfer'],
  [':authority', '127.0.0.1'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
])

/** Calls `/inference.GRPCInferenceService/ModelInfer` with the same message again and again. */
export class InterleavingGrpcClient {
  readonly #socket: Duplex
  readonly #body: Buffer
  readonly #answered: (status: string, dueMs: number) => void
  readonly #decoder = new HpackDecoder()
  readonly #server = new PeerSettings()
  readonly #calls = new Map<number, Call>()
  /** Calls that have something to send and may. */
  readonly #turns = new RingQueue<Call>()
  readonly #due: number[] = []
  #window: number = defaultWindowBytes
  #nextId = 1
  #pending: Buffer = Buffer.alloc(0)
  #receivedBytes = 0

  constructor(socket: Duplex, message: Buffer, answered: (status: string, dueMs: number) => void) {
    this.#answered = answered
    this.#body = Buffer.alloc(5 + message.length)
    this.#body.writeUInt32BE(message.length, 1)
    this.#body.set(message, 5)
    this.#socket = socket
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk))
    this.#socket.on('drain', () => this.#pump())
    this.#socket.on('error', (error) => {
      throw error
    })
    this.#socket.write(
      Buffer.concat([
        clientPreface,
        encodeSettings([[settingIds.INITIAL_WINDOW_SIZE, ownWindowBytes]]),
        encodeWindowUpdate(0, ownWindowBytes - defaultWindowBytes),
      ]),
    )
  }

  get isIdle(): boolean {
    return this.#calls.size === 0
  }

  /** `dueMs` comes back with the answer. Calls beyond what the server allows at a time wait here. */
  ask(dueMs: number): void {
    if (this.#calls.size >= mostStreams) {
      this.#due.push(dueMs)
      return
    }
    const call = { id: this.#nextId, dueMs, sent: 0, window: this.#server.initialWindowBytes, hasTurn: false }
    this.#nextId += 2
    this.#calls.set(call.id, call)
    this.#socket.write(encodeFrame(frameTypes.HEADERS, frameFlags.END_HEADERS, call.id, head))
    this.#takeTurn(call)
    this.#pump()
  }

  #takeTurn(call: Call): void {
    if (call.hasTurn || call.window <= 0 || call.sent === this.#body.length) return
    call.hasTurn = true
    this.#turns.push(call)
  }

  /** What was not begun is forgotten. */
  forgetDue(): void {
    this.#due.length = 0
  }

  close(): void {
    this.#socket.destroy()
  }

  #pump(): void {
    this.#socket.cork()
    for (let left = this.#turns.size; left > 0 && this.#window > 0; left = this.#turns.size) {
      if (this.#socket.writableLength > mostUnwritten) break
      const call = this.#turns.take()
      if (call === undefined) break
      this.#sendPiece(call)
    }
    this.#socket.uncork()
  }

  #sendPiece(call: Call): void {
    call.hasTurn = false
    if (!this.#calls.has(call.id) || call.window <= 0) return
    const bytes = Math.min(pieceBytes, call.window, this.#window, this.#body.length - call.sent)
    const isLast = call.sent + bytes === this.#body.length
    const header = Buffer.allocUnsafe(frameHeaderBytes)
    writeFrameHeader(header, 0, bytes, frameTypes.DATA, isLast ? frameFlags.END_STREAM : 0, call.id)
    this.#socket.write(header)
    this.#socket.write(this.#body.subarray(call.sent, call.sent + bytes))
    call.sent += bytes
    call.window -= bytes
    this.#window -= bytes
    this.#takeTurn(call)
  }

  #read(chunk: Buffer): void {
    const data = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    let at = 0
    while (at + frameHeaderBytes <= data.length) {
      const end = at + frameHeaderBytes + data.readUIntBE(at, 3)
      if (end > data.length) break
      const id = data.readUInt32BE(at + 5)
      this.#onFrame(data[at + 3] as number, data[at + 4] as number, id, data.subarray(at + frameHeaderBytes, end))
      at = end
    }
    this.#pending = data.subarray(at)
    this.#pump()
  }

  #onFrame(type: number, flags: number, id: number, payload: Buffer): void {
    const isEnd = (flags & frameFlags.END_STREAM) !== 0
    switch (type) {
      case frameTypes.HEADERS: {
        const fields = this.#decoder.decode(payload, 0, payload.length, 64 * 1024)
        if (isEnd) this.#end(id, fields[fields.lastIndexOf('grpc-status') + 1] ?? '')
        return
      }
      case frameTypes.DATA:
        this.#receivedBytes += payload.length
        if (this.#receivedBytes < ownWindowBytes / 2) return
        this.#socket.write(encodeWindowUpdate(0, this.#receivedBytes))
        this.#receivedBytes = 0
        return
      case frameTypes.SETTINGS:
        if (!isEnd) this.#onSettings(payload)
        return
      case frameTypes.PING:
        if (!isEnd) this.#socket.write(encodePing(payload, true))
        return
      case frameTypes.WINDOW_UPDATE:
        this.#onWindow(id, payload.readUInt32BE(0))
        return
      case frameTypes.RST_STREAM:
        if (this.#calls.has(id)) this.#end(id, `reset with ${payload.readUInt32BE(0)}`)
        return
      case frameTypes.GOAWAY:
        throw new Error(`the server went away: ${payload.toString('latin1', 8)}`)
      default:
    }
  }

  #onSettings(payload: Buffer): void {
    const before = this.#server.initialWindowBytes
    this.#server.apply(payload)
    const change = this.#server.initialWindowBytes - before
    if (change !== 0) for (const call of this.#calls.values()) this.#openWindow(call, change)
    this.#socket.write(settingsAck)
  }

  #onWindow(id: number, bytes: number): void {
    const call = this.#calls.get(id)
    if (id === 0) this.#window += bytes
    else if (call !== undefined) this.#openWindow(call, bytes)
  }

  #openWindow(call: Call, bytes: number): void {
    call.window += bytes
    this.#takeTurn(call)
  }

  #end(id: number, status: string): void {
    const call = this.#calls.get(id)
    if (call === undefined) return
    this.#calls.delete(id)
    this.#answered(status, call.dueMs)
    const dueMs = this.#due.shift()
    if (dueMs !== undefined) this.ask(dueMs)
  }
}
