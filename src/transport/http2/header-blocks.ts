import { headerBlockOf, maxHeaderBlockBytes } from './frame-rules.ts'
import { Http2Error } from './http2-error.ts'
import { errorCodes, frameFlags, frameTypes } from './http2-format.ts'

/** A block in many small frames costs the reader much work. */
const mostFrames = 32

export interface HeaderBlockSink {
  /** `block` is valid during the call. */
  onHeaderBlock(streamId: number, block: Buffer, endsStream: boolean): void
}

/** Frames → header blocks. A block comes in one frame HEADERS, or in several: then CONTINUATION frames follow at once. */
export class HeaderBlocks {
  readonly #sink: HeaderBlockSink
  /** The parts of a block that is not whole yet; null between blocks. */
  #parts: Buffer[] | null = null
  #bytes = 0
  #streamId = 0
  #endsStream = false

  constructor(sink: HeaderBlockSink) {
    this.#sink = sink
  }

  /** Before each frame. Throws Http2Error where a block is interrupted, or goes on without having begun. */
  expect(type: number, streamId: number): void {
    const isContinuation = type === frameTypes.CONTINUATION
    if (this.#parts === null) {
      if (isContinuation) throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'CONTINUATION without HEADERS')
    } else if (!isContinuation || streamId !== this.#streamId) {
      throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'a header block is interrupted')
    }
  }

  /** HOT: once per block. Throws Http2Error. */
  onHeaders(flags: number, streamId: number, payload: Buffer): void {
    const part = headerBlockOf(flags, payload)
    const endsStream = (flags & frameFlags.END_STREAM) !== 0
    if ((flags & frameFlags.END_HEADERS) !== 0) {
      this.#sink.onHeaderBlock(streamId, part, endsStream)
      return
    }
    this.#parts = []
    this.#bytes = 0
    this.#streamId = streamId
    this.#endsStream = endsStream
    this.#add(this.#parts, part)
  }

  /** After `expect`. Throws Http2Error at the limits. */
  onContinuation(flags: number, payload: Buffer): void {
    const parts = this.#parts as Buffer[]
    this.#add(parts, payload)
    if ((flags & frameFlags.END_HEADERS) === 0) return
    this.#parts = null
    this.#sink.onHeaderBlock(this.#streamId, Buffer.concat(parts, this.#bytes), this.#endsStream)
  }

  #add(parts: Buffer[], part: Buffer): void {
    this.#bytes += part.length
    if (this.#bytes > maxHeaderBlockBytes || parts.length >= mostFrames) {
      throw new Http2Error(errorCodes.ENHANCE_YOUR_CALM, 'a header block is too long')
    }
    // A copy: the frame is valid during the call only.
    parts.push(Buffer.from(part))
  }
}
