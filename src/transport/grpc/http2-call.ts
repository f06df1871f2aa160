// One gRPC call on one HTTP/2 stream: framing, compression, deadline, cancellation.

import { createGunzip, createInflate } from 'node:zlib'

import type { Cancel, Clock } from '../../base/clock.ts'
import { turnBudget } from '../../base/turn-budget.ts'
import type { ConnectionMemory } from '../client-memory.ts'
import type { InflateFailure } from '../inflate-queue.ts'
import type { PeerCertificate } from '../peer-certificate.ts'
import { RequestMemory } from '../request-memory.ts'
import type { GrpcTransportOptions } from './grpc-transport-options.ts'
import { GrpcStatus, statusCodes, statusOk, trailersOf } from './grpc-status.ts'
import { StallWatch } from './stall-watch.ts'
import { metadataValue, type GrpcCall, type OutgoingMessage } from './grpc-transport.ts'
import { errorCodes } from '../http2/http2-format.ts'
import { encodeHeaderBlock, okTrailers, plainHead } from '../http2/hpack-encoder.ts'
import type { Http2Stream, StreamUser } from '../http2/http2-stream.ts'
import type { RequestHead } from '../http2/request-head.ts'
import { CompressedAnswers } from './compressed-answers.ts'
import { MessageArrival, type TurnSurroundings } from './message-arrival.ts'
import { MessageAssembler, MessageUnwelcome } from './message-assembler.ts'
import { acceptedEncodings, chooseEncoding, isMessageEncoding } from './message-compression.ts'
import { assemblerRefusal, inflateRefusal, noRoomFor, type MessageLimit } from './message-refusals.ts'

const headFields = [
  [':status', '200'],
  ['content-type', 'application/grpc'],
] as const
const compressedHeads: Readonly<Record<CompressedAnswers['encoding'], Buffer>> = {
  gzip: encodeHeaderBlock([...headFields, ['grpc-encoding', 'gzip']]),
  deflate: encodeHeaderBlock([...headFields, ['grpc-encoding', 'deflate']]),
}
const errorFields = [...headFields, ['grpc-accept-encoding', acceptedEncodings]] as const
const fieldsOf = (metadata: readonly string[]): [string, string][] =>
  Array.from({ length: metadata.length / 2 }, (_, i) => [metadata[2 * i] as string, metadata[2 * i + 1] as string])
const prefixBytes = 5
/** Messages without an answer of one connection, those of inferences apart, for which models have queues with bounds. */
const mostUnanswered = 64
/** An answer that is not taken for so long leaves the model's memory. */
const copyOutNs = 1e9
/** The most bytes of a message to a method that takes no tensors and no models. HTTP's control endpoints have the same. */
const mostControlBytes = 1024 * 1024
/** What a call of such a method counts for in a turn of the event loop, beside its bytes. */
const controlBytes = 16 * 1024

export type CallSurroundings = TurnSurroundings & {
  readonly clock: Clock
  readonly options: GrpcTransportOptions
  readonly memory: ConnectionMemory
  /** Messages of small calls that have no answer yet. */
  readonly unanswered: { count: number }
  /** Calls that wait until their connection is below its share. */
  readonly heldBack: Set<{ goOn(): void }>
  /** Memory was given back: calls that wait may go on. */
  readonly onRelief: () => void
  readonly remoteAddress: () => string
  readonly peerCertificate: () => PeerCertificate | null
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
  deadlineNs = 0
  isEnded = false

  readonly #stream: Http2Stream
  readonly #head: RequestHead
  readonly #surroundings: CallSurroundings
  /** Null as long as every message has come in one piece. */
  #assembler: MessageAssembler | null = null
  /** The turn of a large message; null as long as none came. */
  #arrival: MessageArrival | null = null
  /** Bytes of a message that waits for its turn. */
  #beginningBytes = 0
  /** Null: answers go out as they are. */
  #compressed: CompressedAnswers | null = null
  #mostMessageBytes: number
  #hasSentHead = false
  /** Metadata that the head has beside the usual; null: none. */
  #leading: readonly string[] | null = null
  /** The same for the trailers. */
  #trailing: readonly string[] | null = null
  #isPaused = false
  #isInflating = false
  /** True: the client takes too little of its answers, or its connection holds too much. The next message waits. */
  #isHeldBack = false
  #isAwaitingTurn = false
  #expectsMessage = false
  /** False where messages hold tensors or models. Answers of the others may be far larger than what asks for them. */
  #isSmall = true
  /** Of a small call: a message was delivered and nothing was sent since. */
  #isUnanswered = false
  /** Bytes of messages that are counted for this call. */
  #heldBytes = 0
  /** Messages of this call that somebody works on. */
  #inWorkCount = 0
  /** What is held for single messages beside their bytes; null as long as nothing is. */
  #memories: Map<Buffer, RequestMemory> | null = null
  /** Made at the first look, some time after the call began: most calls are over by then. */
  #watch: StallWatch | null = null
  #hasClientEnded = false
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

  peerCertificate(): PeerCertificate | null {
    return this.#surroundings.peerCertificate()
  }

  get backlogBytes(): number {
    const { backlogBytes } = this.#stream
    return this.#compressed === null ? backlogBytes : backlogBytes + this.#compressed.bytes
  }

  /** From now on messages are delivered. The handler has been set. */
  begin(): void {
    const { encoding, timeoutNs } = this.#head
    if (encoding !== null && !isMessageEncoding(encoding)) {
      const message = `Compression algorithm '${encoding}' is not supported, use one of: ${acceptedEncodings}`
      this.finish(new GrpcStatus(statusCodes.UNIMPLEMENTED, message))
    } else if (timeoutNs !== null && !this.isEnded) {
      this.deadlineNs = this.#surroundings.clock.nowNs() + timeoutNs
      this.#disarm = this.#surroundings.clock.after(timeoutNs, () => this.#onDeadline())
    }
  }

  allowCompression(): void {
    const { memory, options } = this.#surroundings
    if (options.compressionLevel === 'none') return
    const encoding = chooseEncoding(metadataValue(this.metadata, 'grpc-accept-encoding') ?? '')
    if (encoding === 'identity') return
    this.#compressed = new CompressedAnswers(
      encoding,
      options.compressionLevel,
      memory,
      (message, flag, release, isLast) => this.#write(message, flag, release, isLast),
    )
  }

  allowLargeMessages(): void {
    this.#mostMessageBytes = this.#surroundings.options.maxMessageBytes
    this.#isSmall = false
  }

  setPaused(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return
    this.#isPaused = isPaused
    this.#deliver()
  }

  leadWith(metadata: readonly string[]): void {
    this.#leading = metadata
  }

  trailWith(metadata: readonly string[]): void {
    this.#trailing = metadata
  }

  send(message: OutgoingMessage, release: (() => void) | null): void {
    if (this.#isUnanswered) this.#setUnanswered(false)
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
    this.#endRequest()
    this.#encode(message, release, true)
  }

  finish(status: GrpcStatus): void {
    if (this.isEnded) return
    this.isEnded = true
    this.#disarm?.()
    this.#endRequest()
    if (this.#compressed === null) this.#end(status)
    else this.#compressed.after(() => this.#end(status))
  }

  #isTooLarge({ byteLength }: OutgoingMessage): boolean {
    if (byteLength <= largestMessageBytes) return false
    const message = `Response has byte size ${byteLength} which exceeds gRPC's byte size limit ${largestMessageBytes}.`
    this.finish(new GrpcStatus(statusCodes.INVALID_ARGUMENT, message))
    return true
  }

  #end(status: GrpcStatus): void {
    if (this.#stream.isClosed) return
    if (!this.#hasSentHead && this.#leading === null) {
      status.headBlock ??= encodeHeaderBlock([...errorFields, ...trailersOf(status)])
      this.#stream.sendTrailers(status.headBlock)
    } else if (!this.#hasSentHead) {
      const leading = this.#leading === null ? [] : fieldsOf(this.#leading)
      this.#stream.sendTrailers(
        encodeHeaderBlock([...errorFields, ...leading, ...trailersOf(status), ...this.#trailingFields()]),
      )
    } else
      this.#stream.sendTrailers(
        status === statusOk
          ? this.#okTrailers()
          : encodeHeaderBlock([...trailersOf(status), ...this.#trailingFields()]),
      )
  }

  #encode(message: OutgoingMessage, release: (() => void) | null, isLast: boolean): void {
    if (this.#compressed === null) this.#write(message, 0, release, isLast)
    else this.#compressed.add(message, release, isLast)
  }

  /** HOT: once per answer. */
  #write(message: OutgoingMessage, flag: 0 | 1, release: (() => void) | null, isLast: boolean): void {
    const stream = this.#stream
    if (!stream.isClosed && !this.#surroundings.memory.hasRoomForAnswer(message.byteLength)) {
      release?.()
      this.#refuseAnswer(message.byteLength)
      return
    }
    turnBudget.spend(message.byteLength)
    if (!this.#hasSentHead && !stream.isClosed) {
      this.#hasSentHead = true
      stream.sendHead(this.#headBlock())
    }
    stream.sendMessage(message, flag, release)
    if (stream.isClosed) return
    if (isLast) stream.sendTrailers(this.#okTrailers())
  }

  #trailingFields(): readonly (readonly [string, string])[] {
    return this.#trailing === null ? [] : fieldsOf(this.#trailing)
  }

  #okTrailers(): Buffer {
    if (this.#trailing === null) return okTrailers
    return Buffer.concat([okTrailers, encodeHeaderBlock(fieldsOf(this.#trailing))])
  }

  #headBlock(): Buffer {
    const encoding = this.#compressed?.encoding ?? null
    const plain = encoding === null ? plainHead : compressedHeads[encoding]
    if (this.#leading === null) return plain
    // A field without a name in the table stands for itself, so blocks can be put together.
    return Buffer.concat([plain, encodeHeaderBlock(fieldsOf(this.#leading))])
  }

  /** The client does not take the answers that it has; there is no room for this one. */
  #refuseAnswer(bytes: number): void {
    const refusal = noRoomFor(bytes, this.#surroundings.memory.server)
    if (this.#hasSentHead) this.giveUp()
    else this.#end(refusal)
  }

  onProgress(): void {
    this.lastProgressNs = this.#surroundings.clock.nowNs()
    if (this.#isHeldBack) this.goOn()
  }

  onBacklogSent(): void {
    this.onDrain?.()
    if (this.#isHeldBack) this.goOn()
  }

  expectMessage(): void {
    this.#expectsMessage = true
  }

  messageDone(message: Buffer): void {
    if (this.isEnded) return
    const memory = this.#memories?.get(message)
    // A message that came compressed is counted there as a whole.
    if (memory?.isInflated !== true) {
      this.#heldBytes -= message.length
      this.#surroundings.memory.release(message.length)
    }
    this.#memories?.delete(message)
    memory?.end()
    this.#countWork(-1)
    this.#surroundings.onRelief()
  }

  memoryOf(message: Buffer): RequestMemory {
    let memory = this.#memories?.get(message)
    if (memory === undefined) {
      memory = new RequestMemory(this.#surroundings.memory)
      if (this.isEnded) memory.end()
      else {
        this.#memories ??= new Map()
        this.#memories.set(message, memory)
      }
    }
    return memory
  }

  /** Nothing looks at the call's messages any more. */
  #endRequest(): void {
    if (this.#isUnanswered) this.#setUnanswered(false)
    this.#arrival?.end()
    if (this.#heldBytes > 0) this.#surroundings.memory.release(this.#heldBytes)
    this.#heldBytes = 0
    if (this.#memories !== null) for (const memory of this.#memories.values()) memory.end()
    this.#memories = null
    this.#countWork(-this.#inWorkCount)
    this.#surroundings.onRelief()
  }

  #countWork(change: number): void {
    this.#inWorkCount += change
    this.#surroundings.memory.changeWork(change)
  }

  #setUnanswered(isUnanswered: boolean): void {
    this.#isUnanswered = isUnanswered
    this.#surroundings.unanswered.count += isUnanswered ? 1 : -1
    if (!isUnanswered) this.#surroundings.onRelief()
  }

  /** From the transport, every second. */
  sweep(nowNs: number): void {
    const { writeIdleTimeoutMs, bodyIdleTimeoutMs, leastBodyRate } = this.#surroundings.options
    const stream = this.#stream
    this.#watch ??= new StallWatch()
    const unreadNs = this.#watch.unreadFor(stream, nowNs)
    if (unreadNs >= writeIdleTimeoutMs * 1e6) {
      this.giveUp()
      return
    }
    if (unreadNs >= copyOutNs) stream.copyOut()
    const isHalf = this.#expectsMessage || this.#assembler?.isBetweenMessages === false
    const isAwaited = isHalf && !this.isEnded && (!this.#isWaiting || this.#arrival?.isAwaited === true)
    const leastBytes = Math.max(1, (leastBodyRate * bodyIdleTimeoutMs) / 1000)
    if (this.#watch.halfFor(stream, isAwaited, leastBytes, nowNs) < bodyIdleTimeoutMs * 1e6) return
    const text = `no message arrived whole for ${bodyIdleTimeoutMs / 1000} s, nor ${leastBodyRate} bytes per second of one.`
    this.#breakOff(
      new GrpcStatus(
        statusCodes.DEADLINE_EXCEEDED,
        `${text} Use --grpc-body-idle-timeout-secs or --grpc-body-min-rate to allow slower clients.`,
      ),
    )
  }

  /** HOT: once per request. */
  onPiece(piece: Buffer): void {
    // After the answer nobody reads what the client still sends.
    if (this.isEnded) return
    const assembler = this.#assembler
    if ((assembler === null || assembler.isBetweenMessages) && this.#isOneMessage(piece) && !this.#mustHoldBack) {
      const message = Buffer.allocUnsafe(piece.length - prefixBytes)
      piece.copy(message, 0, prefixBytes)
      this.#give(message, false)
      return
    }
    const { bodies } = this.#surroundings.memory.server
    this.#assembler ??= new MessageAssembler(this.#mostMessageBytes, {
      reserve: (bytes) => this.#reserve(bytes),
      kept: (bytes) => bodies.take(bytes),
      giveBack: (memory) => bodies.give(memory),
      mayBegin: (messageBytes, arrivedBytes) => this.#isSmall || this.#mayBegin(messageBytes, arrivedBytes),
    })
    this.#assembler.push(piece)
    this.#deliver()
    this.#assembler.keepRest()
  }

  target(mostBytes: number): Buffer | null {
    return this.isEnded || this.#assembler === null ? null : this.#assembler.target(mostBytes)
  }

  /** HOT: once per request. False: there is no room for so many bytes. */
  #reserve(bytes: number): boolean {
    if (!this.#surroundings.memory.reserve(bytes)) return false
    this.#heldBytes += bytes
    return true
  }

  /** False: the message waits for its turn. Throws MessageUnwelcome where there is no room for what arrived. */
  #mayBegin(messageBytes: number, arrivedBytes: number): boolean {
    this.#arrival ??= new MessageArrival(this.#stream, this.#surroundings, () => this.#onTurn())
    if (this.#arrival.mayBegin(messageBytes, arrivedBytes)) return true
    if (!this.#reserve(arrivedBytes)) throw new MessageUnwelcome(messageBytes)
    this.#beginningBytes = arrivedBytes
    return false
  }

  #onTurn(): void {
    this.#heldBytes -= this.#beginningBytes
    this.#surroundings.memory.release(this.#beginningBytes)
    this.#beginningBytes = 0
    this.#deliver()
  }

  /** HOT: once per request. */
  #give(message: Buffer, isReserved: boolean): void {
    if (!isReserved && !this.#reserve(message.length)) this.onNoRoom(message.length)
    else {
      this.#expectsMessage = false
      // What a control method answers with is not known yet, and may be far more than its request.
      turnBudget.spend(this.#isSmall ? message.length + controlBytes : message.length)
      if (this.#isSmall) this.#setUnanswered(true)
      this.#countWork(1)
      this.onMessage?.(message)
    }
  }

  onNoRoom(bytes: number): void {
    this.#breakOff(noRoomFor(bytes, this.#surroundings.memory.server))
  }

  /** HOT: once per request. */
  get #mustHoldBack(): boolean {
    const { memory, options, unanswered } = this.#surroundings
    if (this.#isSmall && (this.#isUnanswered || unanswered.count >= mostUnanswered)) return true
    return this.backlogBytes > options.maxBacklogBytes || memory.isFull || turnBudget.isSpent
  }

  get #isWaiting(): boolean {
    return this.#isPaused || this.#isInflating || this.#isHeldBack || this.#arrival?.isWaiting === true
  }

  /** The client has taken answers, or memory was given back: messages may be delivered again. */
  goOn(): void {
    if (!this.#isHeldBack) return
    if (this.#mustHoldBack) {
      this.#awaitTurn()
      return
    }
    this.#isHeldBack = false
    this.#surroundings.heldBack.delete(this)
    this.#deliver()
  }

  #holdBack(): void {
    this.#isHeldBack = true
    this.#awaitTurn()
    this.#surroundings.heldBack.add(this)
  }

  /** All calls of all connections share the turns of the event loop. */
  #awaitTurn(): void {
    if (this.#isAwaitingTurn || !turnBudget.isSpent) return
    this.#isAwaitingTurn = true
    turnBudget.whenRenewed(() => {
      this.#isAwaitingTurn = false
      this.goOn()
    })
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
    while (!this.isEnded && !this.#isWaiting) {
      if (assembler === null || assembler.isDrained) break
      if (this.#mustHoldBack && !this.#mayCollect(assembler)) {
        this.#holdBack()
        break
      }
      let message: ReturnType<MessageAssembler['next']>
      try {
        message = assembler.next()
      } catch (reason) {
        this.#breakOff(assemblerRefusal(reason, this.#limit, this.#surroundings.memory.server))
        return
      }
      if (message === null) break
      this.#arrival?.end()
      if (message.isCompressed) this.#inflate(message.bytes, message.isReserved)
      else this.#give(message.bytes, message.isReserved)
    }
    const mustWait = !this.isEnded && this.#isWaiting
    this.#stream.setPaused(mustWait)
    if (!mustWait && this.#hasClientEnded && !this.isEnded) this.#endOfMessages()
  }

  /** Parts of a large message are read to their place while its call waits: parts that wait are copied twice, and put the server further behind. */
  #mayCollect(assembler: MessageAssembler): boolean {
    if (this.#isSmall || !assembler.isShort) return false
    return assembler.hasItsMemory || !this.#surroundings.memory.isFull
  }

  get #limit(): MessageLimit {
    const mostBytes = this.#mostMessageBytes
    return { mostBytes, isMovable: mostBytes === this.#surroundings.options.maxMessageBytes }
  }

  #endOfMessages(): void {
    if (this.#assembler === null || this.#assembler.isBetweenMessages) {
      const { onHalfClose } = this
      this.onHalfClose = null
      onHalfClose?.()
    } else this.finish(new GrpcStatus(statusCodes.INTERNAL, 'the call ended in the middle of a message'))
  }

  #inflate(bytes: Buffer, isReserved: boolean): void {
    const { encoding } = this.#head
    if (encoding !== 'gzip' && encoding !== 'deflate') {
      this.finish(new GrpcStatus(statusCodes.INTERNAL, "a compressed message came without a 'grpc-encoding'"))
      return
    }
    if (!isReserved && !this.#reserve(bytes.length)) {
      this.onNoRoom(bytes.length)
      return
    }
    this.#isInflating = true
    const { memory } = this.#surroundings
    const inflatedMemory = new RequestMemory(memory)
    this.#memories ??= new Map()
    this.#memories.set(bytes, inflatedMemory)
    const open = encoding === 'gzip' ? createGunzip : createInflate
    const inflated = (failure: InflateFailure | null, message: Buffer): void => {
      this.#isInflating = false
      if (this.isEnded) return
      this.#heldBytes -= bytes.length
      memory.release(bytes.length)
      this.#memories?.delete(bytes)
      this.#memories?.set(message, inflatedMemory)
      if (failure === null) {
        this.#give(message, true)
        this.#deliver()
      } else this.#breakOff(inflateRefusal(failure, bytes.length, encoding, this.#limit, memory.server))
    }
    memory.server.inflations.inflate(bytes, this.#mostMessageBytes, open, inflatedMemory, (failure, message) => {
      if (turnBudget.isSpent && failure === null) turnBudget.whenRenewed(() => inflated(failure, message))
      else inflated(failure, message)
    })
  }

  /** Ends a call whose client still waits for it, and what was begun for the call. */
  #breakOff(status: GrpcStatus): void {
    if (this.isEnded) return
    const { onCancel } = this
    this.onCancel = null
    this.finish(status)
    onCancel?.()
  }

  #onDeadline(): void {
    this.#breakOff(new GrpcStatus(statusCodes.DEADLINE_EXCEEDED, 'Deadline Exceeded'))
  }

  onStreamClosed(): void {
    this.#disarm?.()
    if (this.#isHeldBack) this.#surroundings.heldBack.delete(this)
    this.#compressed?.close()
    const wasOpen = !this.isEnded
    this.isEnded = true
    if (wasOpen) this.#endRequest()
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
