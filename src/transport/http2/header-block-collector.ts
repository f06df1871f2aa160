import { errorCodes } from './http2-format.ts'
import { Http2Error } from './http2-error.ts'
import { maxHeaderBlockBytes } from './frame-rules.ts'

/** A block in many small frames costs more than it says. */
const mostFrames = 32

/** A header block that comes in several frames: HEADERS, then CONTINUATION frames with nothing between them. */
export class HeaderBlockCollector {
  readonly streamId: number
  readonly endsStream: boolean
  readonly #parts: Buffer[] = []
  #bytes = 0

  constructor(streamId: number, endsStream: boolean, first: Buffer) {
    this.streamId = streamId
    this.endsStream = endsStream
    this.add(first)
  }

  /** Throws Http2Error at the limits. */
  add(part: Buffer): void {
    this.#bytes += part.length
    if (this.#bytes > maxHeaderBlockBytes || this.#parts.length >= mostFrames) {
      throw new Http2Error(errorCodes.ENHANCE_YOUR_CALM, 'a header block is too long')
    }
    // A copy: the frame is valid only now.
    this.#parts.push(Buffer.from(part))
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts, this.#bytes)
  }
}
