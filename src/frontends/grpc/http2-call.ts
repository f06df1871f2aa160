// One gRPC call on one HTTP/2 stream: framing, compression, deadline, cancellation.

import { constants, type ServerHttp2Stream } from 'node:http2'

import type { Cancel, Clock } from '../../base/clock.ts'
import type { GrpcOptions } from './grpc-options.ts'
import { encodeStatusMessage, GrpcStatus, statusCodes, statusOk } from './grpc-status.ts'
import { metadataValue, type GrpcCall, type OutgoingMessage } from './grpc-transport.ts'
import { MessageAssembler, MessageTooLarge } from './message-assembler.ts'
import {
  acceptedEncodings,
  chooseEncoding,
  compressMessage,
  isMessageEncoding,
  type MessageInflater,
  type MessageEncoding,
} from './message-compression.ts'

const contentType = 'application/grpc'
const plainHead = { ':status': 200, 'content-type': contentType }
const errorHead = { ...plainHead, 'grpc-accept-encoding': acceptedEncodings }
const headOptions = { waitForTrailers: true, sendDate: false } as const
const endOptions = { endStream: true, sendDate: false } as const
const okTrailers = { 'grpc-status': '0' }
/** A message up to this size is copied behind its prefix: one write instead of two. */
const smallBytes = 16 * 1024

export type CallSurroundings = {
  readonly clock: Clock
  readonly options: GrpcOptions
  readonly inflater: MessageInflater
  /** Something was sent: pings are welcome again. */
  readonly onSent: () => void
  /** Once, when the call and its stream are gone. */
  readonly onGone: (call: Http2Call) => void
}

export class Http2Call implements GrpcCall {
  readonly path: string
  readonly metadata: readonly string[]
  onMessage: ((message: Buffer) => void) | null = null
  onHalfClose: (() => void) | null = null
  onCancel: (() => void) | null = null
  onDrain: (() => void) | null = null
  onClosed: (() => void) | null = null
  lastProgressNs = 0
  isEnded = false

  readonly #stream: ServerHttp2Stream
  readonly #surroundings: CallSurroundings
  readonly #assembler: MessageAssembler
  /** Of the client's messages. */
  readonly #encoding: MessageEncoding
  #responseEncoding: MessageEncoding = 'identity'
  #status: GrpcStatus = statusOk
  #isGone = false
  #isPaused = false
  #isInflating = false
  #hasClientEnded = false
  /** Sends that wait for a compression before them. */
  #waiting: (() => void)[] | null = null
  #disarm: Cancel | null = null

  constructor(stream: ServerHttp2Stream, metadata: readonly string[], path: string, surroundings: CallSurroundings) {
    this.path = path
    this.metadata = metadata
    this.#stream = stream
    this.#surroundings = surroundings
    this.#assembler = new MessageAssembler(surroundings.options.maxMessageBytes)
    const encoding = metadataValue(metadata, 'grpc-encoding') ?? 'identity'
    this.#encoding = isMessageEncoding(encoding) ? encoding : 'identity'
  }

  get backlogBytes(): number {
    return this.#stream.writableLength
  }

  /** From now on messages are delivered. The handler has been set. */
  begin(): void {
    const stream = this.#stream
    stream.on('close', () => this.#onClose())
    if (this.onDrain !== null) stream.on('drain', () => this.onDrain?.())
    stream.on('wantTrailers', () => this.#sendTrailers())
    stream.on('data', (chunk: Buffer) => this.#onData(chunk))
    stream.on('end', () => this.#onEnd())
    const asked = metadataValue(this.metadata, 'grpc-encoding')
    if (asked !== null && !isMessageEncoding(asked)) {
      const message = `Compression algorithm '${asked}' is not supported, use one of: ${acceptedEncodings}`
      this.finish(new GrpcStatus(statusCodes.UNIMPLEMENTED, message))
      return
    }
    const timeoutNs = parseTimeoutNs(metadataValue(this.metadata, 'grpc-timeout'))
    if (timeoutNs !== null && !this.isEnded) {
      this.#disarm = this.#surroundings.clock.after(timeoutNs, () => this.#onDeadline())
    }
  }

  allowCompression(): void {
    if (this.#surroundings.options.compressionLevel === 'none') return
    this.#responseEncoding = chooseEncoding(metadataValue(this.metadata, 'grpc-accept-encoding') ?? '')
  }

  setPaused(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return
    this.#isPaused = isPaused
    this.#deliver()
  }

  send(message: OutgoingMessage, release: (() => void) | null): void {
    if (this.isEnded) {
      release?.()
      return
    }
    if (this.#isTooLarge(message)) release?.()
    else this.#encode(message, release, false)
  }

  sendLast(message: OutgoingMessage, release: (() => void) | null): void {
    if (this.isEnded) {
      release?.()
      return
    }
    if (this.#isTooLarge(message)) {
      release?.()
      return
    }
    this.isEnded = true
    this.#disarm?.()
    this.#encode(message, release, true)
  }

  finish(status: GrpcStatus): void {
    if (this.isEnded) return
    this.isEnded = true
    this.#disarm?.()
    this.#status = status
    this.#inOrder(() => this.#end())
  }

  #isTooLarge({ byteLength }: OutgoingMessage): boolean {
    if (byteLength <= largestMessageBytes) return false
    const message = `Response has byte size ${byteLength} which exceeds gRPC's byte size limit ${largestMessageBytes}.`
    this.finish(new GrpcStatus(statusCodes.INVALID_ARGUMENT, message))
    return true
  }

  #end(): void {
    const stream = this.#stream
    if (this.#isGone) return
    if (stream.headersSent) stream.end()
    else stream.respond({ ...errorHead, ...trailersOf(this.#status) }, endOptions)
    this.#surroundings.onSent()
  }

  /** Runs now, or after the compressions that were begun before. */
  #inOrder(action: () => void): void {
    if (this.#waiting === null) action()
    else this.#waiting.push(action)
  }

  #encode(message: OutgoingMessage, release: (() => void) | null, isLast: boolean): void {
    const encoding = this.#responseEncoding
    if (encoding === 'identity') {
      this.#inOrder(() => this.#write(message, 0, release, isLast))
      return
    }
    // zlib wants one piece, which is a copy: the model's memory goes back at once.
    const bytes = Buffer.concat(message.parts as Uint8Array[], message.byteLength)
    release?.()
    this.#inOrder(() => {
      this.#waiting = []
      compressMessage(bytes, encoding, this.#surroundings.options.compressionLevel, (compressed) => {
        const body = compressed ?? bytes
        this.#write({ parts: [body], byteLength: body.length }, compressed === null ? 0 : 1, null, isLast)
        const waiting = this.#waiting ?? []
        this.#waiting = null
        while (waiting.length > 0 && this.#waiting === null) waiting.shift()?.()
        // One of them began a compression of its own: the rest waits for that.
        if (this.#waiting !== null) (this.#waiting as (() => void)[]).push(...waiting)
      })
    })
  }

  /** HOT: once per answer. */
  #write(message: OutgoingMessage, flag: 0 | 1, release: (() => void) | null, isLast: boolean): void {
    const stream = this.#stream
    if (this.#isGone) {
      release?.()
      return
    }
    if (!stream.headersSent) {
      const encoding = this.#responseEncoding
      stream.respond(encoding === 'identity' ? plainHead : { ...plainHead, 'grpc-encoding': encoding }, headOptions)
    }
    const { parts, byteLength } = message
    if (byteLength <= smallBytes) {
      const frame = Buffer.allocUnsafe(5 + byteLength)
      frame[0] = flag
      frame.writeUInt32BE(byteLength, 1)
      let at = 5
      for (const part of parts) {
        frame.set(part, at)
        at += part.length
      }
      if (isLast) stream.end(frame)
      else stream.write(frame, this.#progressed)
      release?.()
    } else {
      this.#writePieces(parts, byteLength, flag, release)
      if (isLast) stream.end()
    }
    this.#surroundings.onSent()
  }

  #writePieces(parts: readonly Uint8Array[], byteLength: number, flag: 0 | 1, release: (() => void) | null): void {
    const stream = this.#stream
    const prefix = Buffer.allocUnsafe(5)
    prefix[0] = flag
    prefix.writeUInt32BE(byteLength, 1)
    stream.cork()
    stream.write(prefix)
    for (let i = 0; i < parts.length - 1; i++) stream.write(parts[i])
    stream.write(parts.at(-1), () => {
      release?.()
      this.#progressed()
    })
    stream.uncork()
  }

  readonly #progressed = (): void => {
    this.lastProgressNs = this.#surroundings.clock.nowNs()
  }

  #sendTrailers(): void {
    this.#stream.sendTrailers(this.#status === statusOk ? okTrailers : trailersOf(this.#status))
  }

  #onData(chunk: Buffer): void {
    // After an answer the rest of what the client says is of no interest, but must be taken off its window.
    if (this.isEnded) return
    this.#assembler.push(chunk)
    this.#deliver()
  }

  #onEnd(): void {
    this.#hasClientEnded = true
    this.#deliver()
  }

  /** Hands out the messages that are whole, as long as nobody asks to wait. */
  #deliver(): void {
    while (!this.isEnded && !this.#isPaused && !this.#isInflating) {
      let message: ReturnType<MessageAssembler['next']>
      try {
        message = this.#assembler.next()
      } catch (reason) {
        this.finish(this.#refusal(reason))
        return
      }
      if (message === null) break
      if (message.isCompressed) this.#inflate(message.bytes)
      else this.onMessage?.(message.bytes)
    }
    const mustWait = !this.isEnded && (this.#isPaused || this.#isInflating)
    if (mustWait) this.#stream.pause()
    else {
      if (this.#stream.isPaused()) this.#stream.resume()
      if (this.#hasClientEnded && !this.isEnded) this.#endOfMessages()
    }
  }

  #endOfMessages(): void {
    if (this.#assembler.isBetweenMessages) {
      const { onHalfClose } = this
      this.onHalfClose = null
      onHalfClose?.()
    } else this.finish(new GrpcStatus(statusCodes.INTERNAL, 'the call ended in the middle of a message'))
  }

  #refusal(reason: unknown): GrpcStatus {
    if (reason instanceof MessageTooLarge) return this.#tooLarge(String(reason.messageBytes))
    return new GrpcStatus(statusCodes.RESOURCE_EXHAUSTED, 'the server has no memory for the message, try again later')
  }

  #tooLarge(bytes: string): GrpcStatus {
    const { maxMessageBytes } = this.#surroundings.options
    return new GrpcStatus(
      statusCodes.RESOURCE_EXHAUSTED,
      `Received message larger than max (${bytes} vs. ${maxMessageBytes}). ` +
        'Use --grpc-max-message-size to increase the limit.',
    )
  }

  #inflate(bytes: Buffer): void {
    const encoding = this.#encoding
    if (encoding === 'identity') {
      this.finish(new GrpcStatus(statusCodes.INTERNAL, "a compressed message came without a 'grpc-encoding'"))
      return
    }
    this.#isInflating = true
    const isWanted = (): boolean => !this.isEnded
    this.#surroundings.inflater.inflate(bytes, encoding, isWanted, (error, message) => {
      this.#isInflating = false
      if (this.isEnded) return
      if (error === 'too-large') this.finish(this.#tooLarge('more after decompression'))
      else if (error !== null) {
        this.finish(new GrpcStatus(statusCodes.INTERNAL, `a message could not be decompressed as ${encoding}`))
      } else {
        this.onMessage?.(message)
        this.#deliver()
      }
    })
  }

  #onDeadline(): void {
    if (this.isEnded) return
    const { onCancel } = this
    this.onCancel = null
    this.finish(new GrpcStatus(statusCodes.DEADLINE_EXCEEDED, 'Deadline Exceeded'))
    onCancel?.()
  }

  #onClose(): void {
    this.#isGone = true
    this.#disarm?.()
    const wasOpen = !this.isEnded
    this.isEnded = true
    const { onCancel } = this
    this.onCancel = null
    // An answer that was sent needs no cancelling, but a stream of answers may still be going on.
    if (wasOpen) onCancel?.()
    this.onClosed?.()
    this.#surroundings.onGone(this)
  }

  /** Ends the stream under the call: for a server that closes. */
  abort(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL)
  }

  giveUp(): void {
    this.#stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }
}

const largestMessageBytes = 2 ** 31 - 1

function trailersOf(status: GrpcStatus): Record<string, string> {
  const trailers: Record<string, string> = { 'grpc-status': String(status.code) }
  if (status.message !== '') trailers['grpc-message'] = encodeStatusMessage(status.message)
  return trailers
}

const timeoutUnitsNs: Readonly<Record<string, number>> = { H: 3.6e12, M: 6e10, S: 1e9, m: 1e6, u: 1e3, n: 1 }

/** `grpc-timeout`: up to eight digits and a unit. What is not that is no deadline. */
export function parseTimeoutNs(text: string | null): number | null {
  const match = text === null ? null : /^(\d{1,8})([HMSmun])$/.exec(text)
  return match === null ? null : Number(match[1]) * (timeoutUnitsNs[match[2] as string] as number)
}
