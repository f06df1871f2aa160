import {
  defaultHeaderTableBytes,
  defaultWindowBytes,
  errorCodes,
  largestMaxFrameBytes,
  largestWindowBytes,
  leastMaxFrameBytes,
  settingIds,
  type Http2ErrorCode,
} from './http2-format.ts'
import { Http2Error } from './http2-error.ts'

/** What the other side asks of us with SETTINGS. */
export class PeerSettings {
  headerTableBytes: number = defaultHeaderTableBytes
  initialWindowBytes = defaultWindowBytes
  maxFrameBytes = leastMaxFrameBytes
  /** Streams that a client may have open at once. */
  maxStreams = Infinity

  /** Throws Http2Error. Unknown settings are ignored. */
  apply(payload: Buffer): void {
    for (let at = 0; at < payload.length; at += 6) {
      const value = payload.readUInt32BE(at + 2)
      switch (payload.readUInt16BE(at)) {
        case settingIds.HEADER_TABLE_SIZE:
          // The smallest value counts: fields that a smaller table lost do not come back when the table grows again.
          this.headerTableBytes = Math.min(this.headerTableBytes, value)
          break
        case settingIds.ENABLE_PUSH:
          requireRange('ENABLE_PUSH', value, 0, 1, errorCodes.PROTOCOL_ERROR)
          break
        case settingIds.MAX_CONCURRENT_STREAMS:
          this.maxStreams = value
          break
        case settingIds.INITIAL_WINDOW_SIZE:
          requireRange('INITIAL_WINDOW_SIZE', value, 0, largestWindowBytes, errorCodes.FLOW_CONTROL_ERROR)
          this.initialWindowBytes = value
          break
        case settingIds.MAX_FRAME_SIZE:
          requireRange('MAX_FRAME_SIZE', value, leastMaxFrameBytes, largestMaxFrameBytes, errorCodes.PROTOCOL_ERROR)
          this.maxFrameBytes = value
          break
        default:
      }
    }
  }
}

function requireRange(name: string, value: number, least: number, most: number, code: Http2ErrorCode): void {
  if (value < least || value > most) throw new Http2Error(code, `${name} is ${value}`)
}
