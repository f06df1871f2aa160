// The length-prefixed messages in a call's body. The bytes of the socket are lent, so a message that arrives in one piece is
// copied. Other messages are collected in one buffer, which grows with the bytes that arrived and not with the length announced.

import { isInPlace, leastDirectBytes } from '../lent-buffer-socket.ts'
import { leadOf } from './message-lead.ts'

type AssembledMessage = {
  readonly bytes: Buffer
  readonly isCompressed: boolean
  /** Whether the bytes were reserved: those of a message that came in one piece were not. */
  readonly isReserved: boolean
}

const prefixBytes = 5
const leastBytes = 1024
const none = (): null => null
const ignore = (): void => undefined
const always = (): boolean => true

/** What an assembler asks of its call. */
type Surroundings = {
  /** Asked before a buffer grows by so many bytes; false: there is no room. */
  readonly reserve?: (bytes: number) => boolean
  /** Memory that is there already. */
  readonly kept?: (bytes: number) => Buffer | null
  /** Such memory is for others again: there is no room for the message. */
  readonly giveBack?: (memory: Buffer) => void
  /** Asked before a message that comes in parts is collected; false: it stays where it is until `next` is called again. */
  readonly mayBegin?: (messageBytes: number, arrivedBytes: number) => boolean
}
/** How much larger each new buffer is. A higher number means fewer copies of the bytes collected so far. */
const growth = 16

export class MessageTooLarge extends Error {
  readonly messageBytes: number

  constructor(messageBytes: number) {
    super(`a message of ${messageBytes} bytes`)
    this.messageBytes = messageBytes
  }
}

/** There is no room for the message among what is held for clients. */
export class MessageUnwelcome extends Error {
  readonly messageBytes: number

  constructor(messageBytes: number) {
    super(`no room for a message of ${messageBytes} bytes`)
    this.messageBytes = messageBytes
  }
}

export class MessageAssembler {
  readonly #limitBytes: number
  readonly #reserve: (bytes: number) => boolean
  readonly #kept: (bytes: number) => Buffer | null
  readonly #giveBack: (memory: Buffer) => void
  readonly #mayBegin: (messageBytes: number, arrivedBytes: number) => boolean
  /** A prefix that arrives in pieces; null as long as none did. */
  #prefix: Buffer | null = null
  #prefixLength = 0
  #flag = 0
  /** The length of the message being collected; -1 while its prefix is being read. */
  #messageBytes = -1
  #collected: Buffer | null = null
  #collectedLength = 0
  /** The bytes that were not read yet, from `#at` on. */
  #chunk: Buffer | null = null
  #at = 0

  constructor(
    limitBytes: number,
    { reserve = always, kept = none, giveBack = ignore, mayBegin = always }: Surroundings = {},
  ) {
    this.#reserve = reserve
    this.#kept = kept
    this.#giveBack = giveBack
    this.#mayBegin = mayBegin
    this.#limitBytes = limitBytes
  }

  /** True when the body may end here. */
  get isBetweenMessages(): boolean {
    return this.#prefixLength === 0 && this.#messageBytes < 0 && this.#chunk === null
  }

  /** True when `next` would give null: everything that arrived was read. */
  get isDrained(): boolean {
    return this.#chunk === null
  }

  /** True when the message in progress needs more than what arrived: `next` would begin it or go on with it, and give null. */
  get isShort(): boolean {
    const chunk = this.#chunk
    if (chunk === null) return true
    const arrived = chunk.length - this.#at
    if (this.#messageBytes >= 0) return this.#collectedLength + arrived < this.#messageBytes
    return (
      this.#prefixLength === 0 && arrived >= prefixBytes && arrived - prefixBytes < chunk.readUInt32BE(this.#at + 1)
    )
  }

  /** True when the message in progress has all the memory that it needs. */
  get hasItsMemory(): boolean {
    return this.#collected !== null && this.#collected.length >= this.#messageBytes
  }

  /** Where the next bytes of a large message belong, at most so many; null where they are to come as a chunk. */
  target(mostBytes: number): Buffer | null {
    const collected = this.#collected
    if (collected === null || this.#chunk !== null) return null
    const from = this.#collectedLength
    const room = Math.min(collected.length - from, mostBytes)
    return room < leastDirectBytes ? null : collected.subarray(from, from + room)
  }

  /** Copies what was not read yet, unless it lies in its place: the chunk is valid no longer. */
  keepRest(): void {
    if (this.#chunk === null) return
    if (this.#collected !== null && isInPlace(this.#chunk, this.#collected, this.#collectedLength)) return
    this.#chunk = Buffer.from(this.#chunk.subarray(this.#at))
    this.#at = 0
  }

  /** `next` gives the messages in the chunk. It must have given null before the next chunk is pushed. */
  push(chunk: Buffer): void {
    this.#chunk = chunk
    this.#at = 0
  }

  /** Null when more bytes are needed. Throws MessageTooLarge, MessageUnwelcome, and RangeError when there is no memory for the message. */
  next(): AssembledMessage | null {
    const chunk = this.#chunk
    if (chunk === null) return null
    if (this.#messageBytes < 0 && !this.#readPrefix(chunk)) return this.#exhausted()
    const bytes = this.#body(chunk)
    if (bytes === null) return this.#at < chunk.length ? null : this.#exhausted()
    const isCompressed = this.#flag !== 0
    const isReserved = this.#collected !== null
    this.#prefixLength = 0
    this.#messageBytes = -1
    this.#collected = null
    if (this.#at === chunk.length) this.#chunk = null
    return { bytes, isCompressed, isReserved }
  }

  #exhausted(): null {
    this.#chunk = null
    return null
  }

  #readPrefix(chunk: Buffer): boolean {
    let prefix = chunk
    let at = this.#at
    if (this.#prefixLength > 0 || chunk.length - at < prefixBytes) {
      prefix = this.#prefix ??= Buffer.allocUnsafe(prefixBytes)
      const taken = Math.min(prefixBytes - this.#prefixLength, chunk.length - at)
      chunk.copy(prefix, this.#prefixLength, at, at + taken)
      this.#prefixLength += taken
      this.#at += taken
      if (this.#prefixLength < prefixBytes) return false
      at = 0
    } else {
      this.#at += prefixBytes
    }
    this.#flag = prefix[at] as number
    const size = prefix.readUInt32BE(at + 1)
    if (size > this.#limitBytes) throw new MessageTooLarge(size)
    this.#messageBytes = size
    this.#collectedLength = 0
    return true
  }

  #body(chunk: Buffer): Buffer | null {
    const size = this.#messageBytes
    const available = chunk.length - this.#at
    if (this.#collected === null && available >= size) {
      this.#at += size
      return Buffer.from(chunk.subarray(this.#at - size, this.#at))
    }
    if (this.#collected === null && (available === 0 || !this.#mayBegin(size, available))) return null
    const taken = Math.min(size - this.#collectedLength, available)
    const target = this.#room(this.#collectedLength + taken, chunk)
    // Bytes that were read straight to their place are there already.
    if (this.#at > 0 || !isInPlace(chunk, target, this.#collectedLength)) {
      chunk.copy(target, this.#collectedLength, this.#at, this.#at + taken)
    }
    this.#at += taken
    this.#collectedLength += taken
    return this.#collectedLength === size ? target.subarray(0, size) : null
  }

  #room(needed: number, chunk: Buffer): Buffer {
    const current = this.#collected
    if (current !== null && needed <= current.length) return current
    const lead = leadOf(current?.subarray(0, this.#collectedLength) ?? chunk.subarray(this.#at))
    const kept = this.#kept(lead + this.#messageBytes)?.subarray(lead, lead + this.#messageBytes) ?? null
    const capacity = kept?.length ?? Math.min(this.#messageBytes, Math.max(needed * growth, leastBytes))
    if (!this.#reserve(capacity - (current?.length ?? 0))) {
      if (kept !== null) this.#giveBack(kept)
      throw new MessageUnwelcome(this.#messageBytes)
    }
    const grown = kept ?? Buffer.allocUnsafeSlow(lead + capacity).subarray(lead)
    if (current !== null) current.copy(grown, 0, 0, this.#collectedLength)
    this.#collected = grown
    return grown
  }
}
