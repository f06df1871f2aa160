import type { ConnectionMemory } from '../client-memory.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import type { OutgoingMessage } from './grpc-transport.ts'
import { compressMessage, type MessageEncoding } from './message-compression.ts'

type Write = (message: OutgoingMessage, flag: 0 | 1, release: (() => void) | null, isLast: boolean) => void

/** The answers of one call, compressed one after the other and written in the order in which they were added. */
export class CompressedAnswers {
  readonly encoding: Exclude<MessageEncoding, 'identity'>
  /** Bytes of answers that are not compressed yet. */
  bytes = 0
  readonly #level: GrpcTransportOptions['compressionLevel']
  readonly #memory: ConnectionMemory
  readonly #write: Write
  #isClosed = false
  /** What waits until a message before it is compressed; null while none is being compressed. */
  #waiting: (() => void)[] | null = null

  constructor(
    encoding: Exclude<MessageEncoding, 'identity'>,
    level: GrpcTransportOptions['compressionLevel'],
    memory: ConnectionMemory,
    write: Write,
  ) {
    this.encoding = encoding
    this.#level = level
    this.#memory = memory
    this.#write = write
  }

  add(message: OutgoingMessage, release: (() => void) | null, isLast: boolean): void {
    // zlib wants one piece. That piece is a copy, so the model gets its memory back at once.
    const bytes = Buffer.concat(message.parts as Uint8Array[], message.byteLength)
    release?.()
    this.#count(bytes.length)
    this.after(() => this.#compress(bytes, isLast))
  }

  /** Calls `act` once all messages that were added before are written. */
  after(act: () => void): void {
    if (this.#waiting === null) act()
    else this.#waiting.push(act)
  }

  /** Nothing is counted any more: the stream is gone. */
  close(): void {
    this.#count(-this.bytes)
    this.#isClosed = true
  }

  #compress(bytes: Buffer, isLast: boolean): void {
    this.#waiting = []
    compressMessage(bytes, this.encoding, this.#level, (compressed) => {
      const body = compressed ?? bytes
      this.#count(-bytes.length)
      this.#write({ parts: [body], byteLength: body.length }, compressed === null ? 0 : 1, null, isLast)
      const waiting = this.#waiting ?? []
      this.#waiting = null
      while (waiting.length > 0 && this.#waiting === null) waiting.shift()?.()
      // One of these sends began to compress a message: the sends after it wait for that.
      if (this.#waiting !== null) (this.#waiting as (() => void)[]).push(...waiting)
    })
  }

  #count(bytes: number): void {
    if (this.#isClosed) return
    this.bytes += bytes
    this.#memory.changeAnswers(bytes)
  }
}
