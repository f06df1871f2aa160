// One gRPC call on one HTTP/2 stream: framing, compression, deadline, cancellation.

import type { Cancel, Clock } from '../../base/clock.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import { encodeStatusMessage, GrpcStatus, statusCodes, statusOk } from './grpc-status.ts'
import { metadataValue, type GrpcCall, type OutgoingMessage } from './grpc-transport.ts'
import { errorCodes } from '../http2/http2-format.ts'
import { encodeHeaderBlock, okTrailers, plainHead } from '../http2/hpack-encoder.ts'
import type { Http2Stream, StreamUser } from '../http2/http2-stream.ts'
import type { RequestHead } from '../http2/request-head.ts'
import { MessageAssembler, MessageTooLarge } from './message-assembler.ts'
import {
  acceptedEncodings,
  chooseEncoding,
  compressMessage,
  isMessageEncoding,
  type MessageInflater,
  type MessageEncoding,
} from './message-compression.ts'

const headFields = [
  [':status', '200'],
  ['content-type', 'application/grpc'],
] as const
const compressedHeads: Readonly<Record<MessageEncoding, Buffer>> = {
  identity: plainHead,
  gzip: encodeHeaderBlock([...headFields, ['grpc-encoding', 'gzip']]),
  deflate: encodeHeaderBlock([...headFields, ['grpc-encoding', 'deflate']]),
}
const errorFields = [...headFields, ['grpc-accept-encoding', acceptedEncodings]] as const
const prefixBytes = 5
/** The most bytes of a message to a method that takes no tensors and no models. HTTP's control endpoints have the same. */
const mostControlBytes = 1024 * 1024

export type CallSurroundings = {
  readonly clock: Clock
  readonly options: GrpcTransportOptions
  readonly inflater: MessageInflater
  readonly remoteAddress: () => string
  /** Something was sent to the client: its pings count anew. */
  readonly onSent: () => void
  /** Once, when the call and its stream are gone. */
  readonly onGone: () => void
}

export class Http2Call implements GrpcCall, StreamUser {
  readonly path: string
  readonly metadata: readonly string[]
  onMessage: ((message: Buffer) => void) | null = null
  onHalfClose: (() => void) | null = null
  onCancel: (() => void) | null = null
  onDrain: (() => void) | null = null
  onClosed: (() => void) | null = null
  lastProgressNs = 0
  isEnded = false

  readonly #stream: Http2Stream
  readonly #head: RequestHead
  readonly #surroundings: CallSurroundings
  /** Null as long as every message has come in one piece. */
  #assembler: MessageAssembler | null = null
  #responseEncoding: MessageEncoding = 'identity'
  #mostMessageBytes: number
  #hasSentHead = false
  #isPaused = false
  #isInflating = false
  #hasClientEnded = false
  /** Sends that wait until a message before them is compressed. */
  #waiting: (() => void)[] | null = null
  #disarm: Cancel | null = null

  constructor(stream: Http2Stream, head: RequestHead, surroundings: CallSurroundings) {
    this.path = head.path
    this.metadata = head.metadata
    this.#stream = stream
    this.#head = head
    this.#surroundings = surroundings
    this.#mostMessageBytes = Math.min(mostControlBytes, surroundings.options.maxMessageBytes)
  }

  get remoteAddress(): string {
    return this.#surroundings.remoteAddress()
  }

  get backlogBytes(): number {
    return this.#stream.backlogBytes
  }

  /** From now on messages are delivered. The handler has been set. */
  begin(): void {
    const { encoding, timeoutNs } = this.#head
    if (encoding !== null && !isMessageEncoding(encoding)) {
      const message = `Compression algorithm '${encoding}' is not supported, use one of: ${acceptedEncodings}`
      this.finish(new GrpcStatus(statusCodes.UNIMPLEMENTED, message))
    } else if (timeoutNs !== null && !this.isEnded) {
      this.#disarm = this.#surroundings.clock.after(timeoutNs, () => this.#onDeadline())
    }
  }

  allowCompression(): void {
    if (this.#surroundings.options.compressionLevel === 'none') return
    this.#responseEncoding = chooseEncoding(metadataValue(this.metadata, 'grpc-accept-encoding') ?? '')
  }

  allowLargeMessages(): void {
    this.#mostMessageBytes = this.#surroundings.options.maxMessageBytes
  }

  setPaused(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return
    this.#isPaused = isPaused
    this.#deliver()
  }

  send(message: OutgoingMessage, release: (() => void) | null): void {
    if (this.isEnded || this.#isTooLarge(message)) release?.()
    else this.#encode(message, release, false)
  }

  sendLast(message: OutgoingMessage, release: (() => void) | null): void {
    if (this.isEnded || this.#isTooLarge(message)) {
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
    if (this.#waiting === null) this.#end(status)
    else this.#waiting.push(() => this.#end(status))
  }

  #isTooLarge({ byteLength }: OutgoingMessage): boolean {
    if (byteLength <= largestMessageBytes) return false
    const message = `Response has byte size ${byteLength} which exceeds gRPC's byte size limit ${largestMessageBytes}.`
    this.finish(new GrpcStatus(statusCodes.INVALID_ARGUMENT, message))
    return true
  }

  #end(status: GrpcStatus): void {
    if (this.#stream.isClosed) return
    if (!this.#hasSentHead) this.#stream.sendTrailers(encodeHeaderBlock([...errorFields, ...trailersOf(status)]))
    else this.#stream.sendTrailers(status === statusOk ? okTrailers : encodeHeaderBlock(trailersOf(status)))
    this.#surroundings.onSent()
  }

  #encode(message: OutgoingMessage, release: (() => void) | null, isLast: boolean): void {
    const encoding = this.#responseEncoding
    if (encoding !== 'identity') this.#compress(message, encoding, release, isLast)
    else if (this.#waiting === null) this.#write(message, 0, release, isLast)
    else this.#waiting.push(() => this.#write(message, 0, release, isLast))
  }

  #compress(
    message: OutgoingMessage,
    encoding: 'gzip' | 'deflate',
    release: (() => void) | null,
    isLast: boolean,
  ): void {
    // zlib wants one piece. That piece is a copy, so the model gets its memory back at once.
    const bytes = Buffer.concat(message.parts as Uint8Array[], message.byteLength)
    release?.()
    const begin = (): void => {
      this.#waiting = []
      compressMessage(bytes, encoding, this.#surroundings.options.compressionLevel, (compressed) => {
        const body = compressed ?? bytes
        this.#write({ parts: [body], byteLength: body.length }, compressed === null ? 0 : 1, null, isLast)
        const waiting = this.#waiting ?? []
        this.#waiting = null
        while (waiting.length > 0 && this.#waiting === null) waiting.shift()?.()
        // One of these sends began to compress a message: the sends after it wait for that.
        if (this.#waiting !== null) (this.#waiting as (() => void)[]).push(...waiting)
      })
    }
    if (this.#waiting === null) begin()
    else this.#waiting.push(begin)
  }

  /** HOT: once per answer. */
  #write(message: OutgoingMessage, flag: 0 | 1, release: (() => void) | null, isLast: boolean): void {
    const stream = this.#stream
    if (!this.#hasSentHead && !stream.isClosed) {
      this.#hasSentHead = true
      stream.sendHead(compressedHeads[this.#responseEncoding])
    }
    stream.sendMessage(message, flag, release)
    if (stream.isClosed) return
    if (isLast) stream.sendTrailers(okTrailers)
    this.#surroundings.onSent()
  }

  onProgress(): void {
    this.lastProgressNs = this.#surroundings.clock.nowNs()
  }

  onBacklogSent(): void {
    this.onDrain?.()
  }

  /** HOT: once per request. */
  onPiece(piece: Buffer): void {
    // After the answer nobody reads what the client still sends.
    if (this.isEnded) return
    const assembler = this.#assembler
    if ((assembler === null || assembler.isBetweenMessages) && this.#isOneMessage(piece)) {
      this.onMessage?.(piece.subarray(prefixBytes))
      return
    }
    this.#assembler ??= new MessageAssembler(this.#mostMessageBytes)
    this.#assembler.push(piece)
    this.#deliver()
  }

  /** True for most messages: whole, not compressed, alone in a frame. */
  #isOneMessage(piece: Buffer): boolean {
    const bytes = piece.length - prefixBytes
    if (bytes < 0 || bytes > this.#mostMessageBytes) return false
    return piece[0] === 0 && piece.readUInt32BE(1) === bytes
  }

  onBodyEnd(): void {
    this.#hasClientEnded = true
    this.#deliver()
  }

  /** Hands out the messages that are whole, until the call is paused. */
  #deliver(): void {
    const assembler = this.#assembler
    while (!this.isEnded && !this.#isPaused && !this.#isInflating) {
      if (assembler === null) break
      let message: ReturnType<MessageAssembler['next']>
      try {
        message = assembler.next()
      } catch (reason) {
        this.finish(this.#refusal(reason))
        return
      }
      if (message === null) break
      if (message.isCompressed) this.#inflate(message.bytes)
      else this.onMessage?.(message.bytes)
    }
    const mustWait = !this.isEnded && (this.#isPaused || this.#isInflating)
    this.#stream.setPaused(mustWait)
    if (!mustWait && this.#hasClientEnded && !this.isEnded) this.#endOfMessages()
  }

  #endOfMessages(): void {
    if (this.#assembler === null || this.#assembler.isBetweenMessages) {
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
    const mostBytes = this.#mostMessageBytes
    const isMovable = mostBytes === this.#surroundings.options.maxMessageBytes
    const hint = isMovable
      ? 'Use --grpc-max-message-size to increase the limit.'
      : 'Only methods that take tensors or models take larger messages.'
    return new GrpcStatus(
      statusCodes.RESOURCE_EXHAUSTED,
      `Received message larger than max (${bytes} vs. ${mostBytes}). ${hint}`,
    )
  }

  #inflate(bytes: Buffer): void {
    const { encoding } = this.#head
    if (encoding !== 'gzip' && encoding !== 'deflate') {
      this.finish(new GrpcStatus(statusCodes.INTERNAL, "a compressed message came without a 'grpc-encoding'"))
      return
    }
    this.#isInflating = true
    const isWanted = (): boolean => !this.isEnded
    this.#surroundings.inflater.inflate(bytes, encoding, this.#mostMessageBytes, isWanted, (error, message) => {
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

  onStreamClosed(): void {
    this.#disarm?.()
    const wasOpen = !this.isEnded
    this.isEnded = true
    const { onCancel } = this
    this.onCancel = null
    // A call that was answered needs no cancelling. A stream may have more answers to come.
    if (wasOpen) onCancel?.()
    this.onClosed?.()
    this.#surroundings.onGone()
  }

  giveUp(): void {
    this.#stream.reset(errorCodes.ENHANCE_YOUR_CALM)
  }
}

const largestMessageBytes = 2 ** 31 - 1

function trailersOf(status: GrpcStatus): (readonly [string, string])[] {
  const code = ['grpc-status', String(status.code)] as const
  return status.message === '' ? [code] : [code, ['grpc-message', encodeStatusMessage(status.message)]]
}
