// An HTTP/2 client that says exactly what a test wants, right or wrong, and notes what comes back.

import net from 'node:net'
import {
  clientPreface,
  encodeFrame,
  encodeSettings,
  frameFlags,
  frameHeaderBytes,
  frameTypes,
} from '../../src/transport/http2/http2-format.ts'
import { HpackDecoder } from '../../src/transport/http2/hpack-decoder.ts'
import { encodeHeaderBlock } from '../../src/transport/http2/hpack-encoder.ts'
import { until } from '../until.ts'

export type Frame = {
  readonly type: number
  readonly flags: number
  readonly streamId: number
  readonly payload: Buffer
  /** Of a HEADERS frame. */
  readonly fields: readonly string[]
}

export const greeting: Buffer = Buffer.concat([clientPreface, encodeSettings([])])

export const requestFields = (path: string): [string, string][] => [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', path],
  [':authority', '127.0.0.1'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
]

const { HEADERS, DATA } = frameTypes
const { END_HEADERS, END_STREAM } = frameFlags

export const headersOf = (streamId: number, fields: [string, string][], flags: number = END_HEADERS): Buffer =>
  encodeFrame(HEADERS, flags, streamId, encodeHeaderBlock(fields))

/** A message without a byte in it. */
export const emptyMessage: Buffer = Buffer.alloc(5)

export const dataOf = (streamId: number, bytes: Buffer = emptyMessage, flags: number = END_STREAM): Buffer =>
  encodeFrame(DATA, flags, streamId, bytes)

export class Http2RawClient {
  readonly socket: net.Socket
  readonly frames: Frame[] = []
  readonly closed: Promise<void>
  readonly #decoder = new HpackDecoder()
  #pending: Buffer = Buffer.alloc(0)
  #isClosed = false
  #notify: (() => void) | null = null

  constructor(socket: net.Socket) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => this.#onChunk(chunk))
    socket.on('error', () => undefined)
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.#isClosed = true
        this.#notify?.()
        resolve()
      })
    })
  }

  static connect(port: number): Http2RawClient {
    return new Http2RawClient(net.connect({ port, host: '127.0.0.1', noDelay: true }))
  }

  send(...frames: readonly Uint8Array[]): void {
    this.socket.write(Buffer.concat(frames))
  }

  /** The first frame that fits, among those that came and those to come. Null when the connection ended without it. */
  async find(isWanted: (frame: Frame) => boolean): Promise<Frame | null> {
    await this.until(() => this.frames.some(isWanted))
    return this.frames.find(isWanted) ?? null
  }

  /** Until it holds, or the connection has ended. */
  async until(holds: () => boolean): Promise<void> {
    await until(() => this.#isClosed || holds(), `frames such that ${holds.toString()}`, { seen: () => this.frames })
  }

  ofType(type: number, streamId = 0): Promise<Frame | null> {
    return this.find((frame) => frame.type === type && frame.streamId === streamId)
  }

  /** The value of a field in the last HEADERS of a stream. */
  async trailer(streamId: number, name: string): Promise<string | null> {
    const frame = await this.find(
      ({ type, flags, streamId: id }) => type === HEADERS && id === streamId && (flags & END_STREAM) !== 0,
    )
    const at = frame?.fields.indexOf(name) ?? -1
    return at < 0 ? null : (frame?.fields[at + 1] ?? null)
  }

  destroy(): void {
    this.socket.destroy()
  }

  #onChunk(chunk: Buffer): void {
    let data = Buffer.concat([this.#pending, chunk])
    while (data.length >= frameHeaderBytes) {
      const end = frameHeaderBytes + data.readUIntBE(0, 3)
      if (data.length < end) break
      const type = data[3] as number
      const payload = data.subarray(frameHeaderBytes, end)
      const fields = type === HEADERS ? this.#decoder.decode(payload, 0, payload.length, 2 ** 20) : []
      this.frames.push({ type, flags: data[4] as number, streamId: data.readUInt32BE(5), payload, fields })
      data = data.subarray(end)
    }
    this.#pending = data
    this.#notify?.()
  }
}
