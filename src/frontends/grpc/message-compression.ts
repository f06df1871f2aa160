import { deflate, gunzip, gzip, inflate } from 'node:zlib'

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

/** In one of zlib's threads. `null` when it failed or did not get smaller: then the message goes out as it is. */
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

/** Never more than `limitBytes` come out of it, whatever went in. */
export function decompressMessage(
  bytes: Buffer,
  encoding: 'gzip' | 'deflate',
  limitBytes: number,
  done: (error: 'too-large' | 'corrupt' | null, message: Buffer) => void,
): void {
  const options = { maxOutputLength: limitBytes }
  const decompress = encoding === 'gzip' ? gunzip : inflate
  decompress(bytes, options, (error, message) => {
    if (error === null) done(null, message)
    else done((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? 'too-large' : 'corrupt', nothing)
  })
}

const nothing = Buffer.alloc(0)
