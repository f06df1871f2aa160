import { deflate, gzip } from 'node:zlib'

export type MessageEncoding = 'identity' | 'gzip' | 'deflate'

/** What the server understands, for `grpc-accept-encoding`. */
export const acceptedEncodings = 'identity, deflate, gzip'

export const isMessageEncoding = (text: string): text is MessageEncoding =>
  text === 'identity' || text === 'gzip' || text === 'deflate'

/** What the client's `grpc-accept-encoding` allows, gzip first. */
export function chooseEncoding(accepted: string): MessageEncoding {
  const names = accepted.split(',').map((name) => name.trim())
  if (names.includes('gzip')) return 'gzip'
  return names.includes('deflate') ? 'deflate' : 'identity'
}

const zlibLevels = { none: 0, low: 1, medium: 6, high: 9 } as const

/** Compresses in one of zlib's threads. Gives null when zlib failed or saved nothing: then the message is sent as it is. */
export function compressMessage(
  bytes: Buffer,
  encoding: 'gzip' | 'deflate',
  level: keyof typeof zlibLevels,
  done: (compressed: Buffer | null) => void,
): void {
  const compress = encoding === 'gzip' ? gzip : deflate
  compress(bytes, { level: zlibLevels[level] }, (error, compressed) =>
    done(error === null && compressed.length < bytes.length ? compressed : null),
  )
}
