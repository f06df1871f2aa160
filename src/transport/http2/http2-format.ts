// HTTP/2 on the wire (RFC 9113): its numbers and its small frames, the same for a server and for a client.

export const frameTypes = {
  DATA: 0,
  HEADERS: 1,
  PRIORITY: 2,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH_PROMISE: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
} as const

/** ACK and END_STREAM share a bit: no frame has both. */
export const frameFlags = { ACK: 1, END_STREAM: 1, END_HEADERS: 4, PADDED: 8, PRIORITY: 32 } as const

export const errorCodes = {
  NO_ERROR: 0,
  PROTOCOL_ERROR: 1,
  INTERNAL_ERROR: 2,
  FLOW_CONTROL_ERROR: 3,
  STREAM_CLOSED: 5,
  FRAME_SIZE_ERROR: 6,
  REFUSED_STREAM: 7,
  CANCEL: 8,
  COMPRESSION_ERROR: 9,
  ENHANCE_YOUR_CALM: 11,
  HTTP_1_1_REQUIRED: 13,
} as const
export type Http2ErrorCode = (typeof errorCodes)[keyof typeof errorCodes]

export const settingIds = {
  HEADER_TABLE_SIZE: 1,
  ENABLE_PUSH: 2,
  MAX_CONCURRENT_STREAMS: 3,
  INITIAL_WINDOW_SIZE: 4,
  MAX_FRAME_SIZE: 5,
  MAX_HEADER_LIST_SIZE: 6,
} as const

export const frameHeaderBytes = 9
export const clientPreface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

/** What holds for both sides before the first settings. */
export const defaultWindowBytes = 65_535
export const largestWindowBytes = 2 ** 31 - 1
export const leastMaxFrameBytes = 16_384
export const largestMaxFrameBytes = 2 ** 24 - 1
/** The size of HPACK's table of earlier fields. */
export const defaultHeaderTableBytes = 4096

export function writeFrameHeader(
  target: Buffer,
  at: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): number {
  target[at] = length >>> 16
  target[at + 1] = length >>> 8
  target[at + 2] = length
  target[at + 3] = type
  target[at + 4] = flags
  target[at + 5] = streamId >>> 24
  target[at + 6] = streamId >>> 16
  target[at + 7] = streamId >>> 8
  target[at + 8] = streamId
  return at + frameHeaderBytes
}

export function encodeFrame(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + payload.length)
  frame.set(payload, writeFrameHeader(frame, 0, payload.length, type, flags, streamId))
  return frame
}

function encodeNumberFrame(type: number, streamId: number, value: number): Buffer {
  const frame = Buffer.allocUnsafe(frameHeaderBytes + 4)
  frame.writeUInt32BE(value, writeFrameHeader(frame, 0, 4, type, 0, streamId))
  return frame
}

export const encodeWindowUpdate = (streamId: number, bytes: number): Buffer =>
  encodeNumberFrame(frameTypes.WINDOW_UPDATE, streamId, bytes)

export const encodeReset = (streamId: number, code: Http2ErrorCode): Buffer =>
  encodeNumberFrame(frameTypes.RST_STREAM, streamId, code)

export const encodePing = (payload: Uint8Array, isAnswer: boolean): Buffer =>
  encodeFrame(frameTypes.PING, isAnswer ? frameFlags.ACK : 0, 0, payload)

export function encodeGoaway(lastStreamId: number, code: Http2ErrorCode, reason: string): Buffer {
  const text = Buffer.from(reason)
  const payload = Buffer.allocUnsafe(8 + text.length)
  payload.writeUInt32BE(lastStreamId, 0)
  payload.writeUInt32BE(code, 4)
  payload.set(text, 8)
  return encodeFrame(frameTypes.GOAWAY, 0, 0, payload)
}

export function encodeSettings(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.allocUnsafe(6 * settings.length)
  let at = 0
  for (const [id, value] of settings) at = payload.writeUInt32BE(value, payload.writeUInt16BE(id, at))
  return encodeFrame(frameTypes.SETTINGS, 0, 0, payload)
}

export const settingsAck: Buffer = encodeFrame(frameTypes.SETTINGS, frameFlags.ACK, 0, Buffer.alloc(0))
