// What RFC 9113 demands of a frame's header.

import { errorCodes, frameFlags, frameTypes } from './http2-format.ts'
import { Http2Error } from './http2-error.ts'

/** The most bytes of a header block, and of any frame that is read as a whole. */
export const maxHeaderBlockBytes = 64 * 1024

type Rule = {
  /** On the connection (stream 0), on a stream, or either. */
  readonly on: 'connection' | 'stream' | 'both'
  readonly isSizeValid: (length: number, flags: number) => boolean
}

const exactly =
  (bytes: number): Rule['isSizeValid'] =>
  (length) =>
    length === bytes
const anySize = (): boolean => true

/** The rule of each frame type; null for pushes, which are refused. Types beyond the list are ignored. */
const rules: readonly (Rule | null)[] = [
  { on: 'stream', isSizeValid: anySize },
  { on: 'stream', isSizeValid: anySize },
  { on: 'stream', isSizeValid: exactly(5) },
  { on: 'stream', isSizeValid: exactly(4) },
  {
    on: 'connection',
    isSizeValid: (length, flags) => ((flags & frameFlags.ACK) === 0 ? length % 6 === 0 : length === 0),
  },
  null,
  { on: 'connection', isSizeValid: exactly(8) },
  { on: 'connection', isSizeValid: (length) => length >= 8 },
  { on: 'both', isSizeValid: exactly(4) },
  { on: 'stream', isSizeValid: anySize },
]

/** Throws Http2Error. HOT: once per frame. */
export function validateFrameHeader(type: number, flags: number, streamId: number, length: number): void {
  if (type >= rules.length) return
  const rule = rules[type] as Rule | null
  if (rule === null) throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'a push that nobody asked for')
  if (rule.on !== 'both' && (streamId === 0) !== (rule.on === 'connection')) {
    throw new Http2Error(errorCodes.PROTOCOL_ERROR, `a frame of type ${type} on stream ${streamId}`)
  }
  if (!rule.isSizeValid(length, flags)) {
    throw new Http2Error(errorCodes.FRAME_SIZE_ERROR, `a frame of type ${type} with ${length} bytes`)
  }
  if (type !== frameTypes.DATA && length > maxHeaderBlockBytes) {
    throw new Http2Error(errorCodes.ENHANCE_YOUR_CALM, `a frame of type ${type} with ${length} bytes`)
  }
}

/** Where the header block is in the payload of a HEADERS frame. Throws Http2Error. */
export function headerBlockOf(flags: number, payload: Buffer): Buffer {
  let start = 0
  let end = payload.length
  if ((flags & frameFlags.PADDED) !== 0) {
    if (end < 1) throw new Http2Error(errorCodes.FRAME_SIZE_ERROR, 'a padded frame without padding')
    end -= payload[0] as number
    start = 1
  }
  // RFC 9113 has no priorities any more, but clients may still send them.
  if ((flags & frameFlags.PRIORITY) !== 0) start += 5
  if (start > end) throw new Http2Error(errorCodes.PROTOCOL_ERROR, 'more padding than frame')
  return start === 0 && end === payload.length ? payload : payload.subarray(start, end)
}
