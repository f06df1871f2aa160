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

type Inflated = (error: 'too-large' | 'corrupt' | null, message: Buffer) => void

/** The most messages that are inflated at a time: each may become as large as the limit. */
const mostAtOnce = 4

export class MessageInflater {
  readonly #waiting: (() => void)[] = []
  #running = 0

  /** Gives no more bytes than the limit. `isWanted` is called when the message's turn has come. */
  inflate(
    bytes: Buffer,
    encoding: 'gzip' | 'deflate',
    limitBytes: number,
    isWanted: () => boolean,
    done: Inflated,
  ): void {
    const start = (): void => {
      if (isWanted()) this.#run(bytes, encoding, limitBytes, done)
      else this.#next()
    }
    if (this.#running >= mostAtOnce) this.#waiting.push(start)
    else start()
  }

  #run(bytes: Buffer, encoding: 'gzip' | 'deflate', limitBytes: number, done: Inflated): void {
    this.#running++
    const decompress = encoding === 'gzip' ? gunzip : inflate
    decompress(bytes, { maxOutputLength: limitBytes }, (error, message) => {
      this.#running--
      if (error === null) done(null, message)
      else done((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? 'too-large' : 'corrupt', nothing)
      this.#next()
    })
  }

  #next(): void {
    if (this.#running < mostAtOnce) this.#waiting.shift()?.()
  }
}

const nothing = Buffer.alloc(0)
