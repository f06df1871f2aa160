// The numbers of HTTP/2 (RFC 9113) and the bytes that a connection begins with.

export const frameType = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const frameFlag = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const

export const settingId = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
} as const

export const frameHeadBytes = 9
const maxWindow = 2 ** 31 - 1
/** The server gets new room when it has used this much of what it had. */
export const windowTopUp = 2 ** 29

export function writeFrameHead(
  target: Buffer,
  at: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): void {
  target[at] = length >>> 16
  target[at + 1] = length >>> 8
  target[at + 2] = length
  target[at + 3] = type
  target[at + 4] = flags
  target.writeUInt32BE(streamId, at + 5)
}

/** The preface, settings (no table, no pushes, as much room as there is) and room for the connection as a whole. */
export function openingBytes(): Buffer {
  const settings = [
    [settingId.headerTableSize, 0],
    [settingId.enablePush, 0],
    [settingId.initialWindowSize, maxWindow],
  ] as const
  const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')
  const bytes = Buffer.alloc(frameHeadBytes + settings.length * 6 + frameHeadBytes + 4)
  writeFrameHead(bytes, 0, settings.length * 6, frameType.settings, 0, 0)
  let at = frameHeadBytes
  for (const [id, value] of settings) {
    bytes.writeUInt16BE(id, at)
    bytes.writeUInt32BE(value, at + 2)
    at += 6
  }
  writeFrameHead(bytes, at, 4, frameType.windowUpdate, 0, 0)
  bytes.writeUInt32BE(maxWindow - 65_535, at + frameHeadBytes)
  return Buffer.concat([preface, bytes])
}
