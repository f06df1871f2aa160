// The other side's bytes → frames. A frame that arrives in one piece is a view on that piece. A frame that arrives in
// several pieces is collected, except for DATA, which is passed on piece by piece. HOT: `push`, once per read of the socket.

import { leastDirectBytes } from '../lent-buffer-socket.ts'
import { errorCodes, frameFlags, frameHeaderBytes, frameTypes } from './http2-format.ts'
import { Http2Error } from './http2-error.ts'
import { maxHeaderBlockBytes } from './frame-rules.ts'

export interface FrameSink {
  /** True once nothing more is wanted. */
  readonly isClosed: boolean
  /** Called before the payload of a frame is read, so that a wrong frame costs nothing. May throw Http2Error. */
  onFrameHeader(type: number, flags: number, streamId: number, length: number): void
  /** Any frame but DATA. `payload` is valid during the call. */
  onFrame(type: number, flags: number, streamId: number, payload: Buffer): void
  /** A part of a DATA frame, without padding. Called at least once per frame; `isLast` with the last part. */
  onDataPiece(flags: number, streamId: number, piece: Buffer, isLast: boolean): void
  /** Where the next bytes of the DATA frame that is being read belong, at most so many; null: anywhere. */
  dataTarget?(mostBytes: number): Buffer | null
}

const nothing = Buffer.alloc(0)

export class FrameReader {
  readonly #sink: FrameSink
  readonly #maxFrameBytes: number
  /** What comes before the first frame; empty where the other side is a server. */
  readonly #preface: Buffer
  #prefaceBytes = 0
  readonly #header = Buffer.allocUnsafeSlow(frameHeaderBytes)
  #headerBytes = 0
  #isInFrame = false
  #type = 0
  #flags = 0
  #streamId = 0
  /** How many bytes of the payload are still to come; for DATA without the padding. */
  #left = 0
  #paddingLeft = 0
  #hasPadLength = false
  #collected: Buffer | null = null

  constructor(sink: FrameSink, maxFrameBytes: number, preface: Buffer) {
    this.#sink = sink
    this.#maxFrameBytes = maxFrameBytes
    this.#preface = preface
  }

  /** Throws Http2Error. */
  push(chunk: Buffer): void {
    let at = 0
    if (this.#prefaceBytes < this.#preface.length) at = this.#readPreface(chunk)
    while (at < chunk.length && !this.#sink.isClosed) {
      if (!this.#isInFrame) at = this.#readHeader(chunk, at)
      else if (this.#type === frameTypes.DATA) at = this.#readData(chunk, at)
      else if (this.#type > frameTypes.CONTINUATION) at = this.#skipPayload(chunk, at)
      else at = this.#readPayload(chunk, at)
    }
  }

  /** Where the next bytes of the other side may be read to, for `push` to take them from there; null: anywhere. HOT. */
  target(): Buffer | null {
    if (!this.#isInFrame || this.#type !== frameTypes.DATA || this.#hasPadLength || this.#left < leastDirectBytes)
      return null
    return this.#sink.dataTarget?.(this.#left) ?? null
  }

  #readPreface(chunk: Buffer): number {
    const from = this.#prefaceBytes
    const length = Math.min(this.#preface.length - from, chunk.length)
    if (chunk.compare(this.#preface, from, from + length, 0, length) !== 0) {
      throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'this port speaks HTTP/2 (gRPC) alone')
    }
    this.#prefaceBytes += length
    return length
  }

  #readHeader(chunk: Buffer, start: number): number {
    let header = chunk
    let at = start
    let end = start + frameHeaderBytes
    if (this.#headerBytes > 0 || end > chunk.length) {
      header = this.#header
      end = Math.min(chunk.length, start + frameHeaderBytes - this.#headerBytes)
      chunk.copy(header, this.#headerBytes, start, end)
      this.#headerBytes += end - start
      if (this.#headerBytes < frameHeaderBytes) return end
      this.#headerBytes = 0
      at = 0
    }
    const length = header.readUIntBE(at, 3)
    this.#type = header[at + 3] as number
    this.#flags = header[at + 4] as number
    this.#streamId = header.readUInt32BE(at + 5) & 0x7fffffff
    if (length > this.#maxFrameBytes) {
      const limit = `expected at most ${this.#maxFrameBytes}`
      throw new Http2Error(errorCodes.FRAME_SIZE_ERROR, `a frame of ${length} bytes, ${limit}`)
    }
    this.#sink.onFrameHeader(this.#type, this.#flags, this.#streamId, length)
    this.#left = length
    this.#paddingLeft = 0
    this.#isInFrame = true
    if (this.#type === frameTypes.DATA) this.#hasPadLength = (this.#flags & frameFlags.PADDED) !== 0
    // A frame without a payload is whole now. The chunk may end here, so the loop of `push` would miss it.
    if (length === 0) this.#endEmpty()
    return end
  }

  #endEmpty(): void {
    this.#isInFrame = false
    if (this.#type !== frameTypes.DATA) this.#sink.onFrame(this.#type, this.#flags, this.#streamId, nothing)
    else if (this.#hasPadLength) throw new Http2Error(errorCodes.FRAME_SIZE_ERROR, 'a padded frame without padding')
    else this.#sink.onDataPiece(this.#flags, this.#streamId, nothing, true)
  }

  #readData(chunk: Buffer, start: number): number {
    let at = start
    if (this.#hasPadLength) {
      this.#hasPadLength = false
      const padding = chunk[at++] as number
      this.#left -= 1 + padding
      if (this.#left < 0) throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'more padding than frame')
      this.#paddingLeft = padding
    }
    const end = Math.min(chunk.length, at + this.#left)
    this.#left -= end - at
    const padded = Math.min(this.#paddingLeft, chunk.length - end)
    this.#paddingLeft -= padded
    const isLast = this.#left === 0 && this.#paddingLeft === 0
    if (isLast) this.#isInFrame = false
    if (end > at || isLast) this.#sink.onDataPiece(this.#flags, this.#streamId, chunk.subarray(at, end), isLast)
    return end + padded
  }

  /** Frames of an unknown type are allowed, and ignored. */
  #skipPayload(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#left)
    this.#left -= end - at
    this.#isInFrame = this.#left > 0
    return end
  }

  #readPayload(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#left)
    const length = end - at
    if (this.#collected === null && length === this.#left) {
      this.#isInFrame = false
      this.#sink.onFrame(this.#type, this.#flags, this.#streamId, chunk.subarray(at, end))
      return end
    }
    if (this.#collected === null) {
      if (this.#left > maxHeaderBlockBytes) throw new Http2Error(errorCodes.ENHANCE_YOUR_CALM, 'a frame is too large')
      this.#collected = Buffer.allocUnsafe(this.#left)
    }
    const collected = this.#collected
    chunk.copy(collected, collected.length - this.#left, at, end)
    this.#left -= length
    if (this.#left > 0) return end
    this.#collected = null
    this.#isInFrame = false
    this.#sink.onFrame(this.#type, this.#flags, this.#streamId, collected)
    return end
  }
}
