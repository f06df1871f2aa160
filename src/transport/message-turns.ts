// Large messages begin in turns. A client may send a part of each of a thousand messages, and a server that is behind would hold parts
// of all of them and none that is whole. So only as many arrive at a time as keep the server reading. The others wait, most of them at
// their client. Each connection has its turn; of one connection the first message comes first.

import type { Cancel, Clock } from '../base/clock.ts'
import type { ClientMemory, ConnectionMemory } from './client-memory.ts'

/** Smaller messages need no turn. It is what a client may send of a message before its turn. */
export const leastTurnBytes = 65_535
/** What may be on its way of messages that have their turn, and the share of the memory for clients that it is at most. One message always may. */
const mostArrivingBytes = 32 * 1024 * 1024
const arrivingShare = 1 / 16
/** What the beginnings of messages that wait may hold of that memory: those that have their turn need room. */
const waitingShare = 1 / 4
/** So often one looks whether messages come that have their turn. */
const lookNs = 100e6
/** A message of which less comes between two looks is slow: the others no longer wait for it. */
const leastBytesPerLook = 1024 * 1024
/** Unless the server has read so much of other messages meanwhile, and not for more than so many looks. */
const busyBytesPerLook = 4 * leastBytesPerLook
const mostBusyLooks = 10
/** After so long without a message that waits, clients may send at will again. */
const calmNs = 1e9

export interface ArrivingMessage {
  readonly lane: TurnLane
  readonly bytes: number
  /** Bytes that came so far. */
  readonly arrivedBytes: number
  onTurn(): void
}

type Turn = { readonly message: ArrivingMessage; arrivedAtLook: number; lookCount: number }

/** The messages of one connection. */
export class TurnLane {
  readonly memory: ConnectionMemory
  readonly waiting = new Set<ArrivingMessage>()
  /** Messages that others do not wait for, and when they began; -1 where they had a turn and lost it. */
  readonly slow = new Map<ArrivingMessage, number>()
  /** What the connection has had, and what it would have had before its first wait: the one with the least comes next. */
  servedBytes = 0
  /** True: its messages came too slowly. It has one at a time, beside the turns of the others. */
  isSlow = false

  constructor(memory: ConnectionMemory) {
    this.memory = memory
  }

  get mayGoOn(): boolean {
    return !this.memory.isFull && !(this.isSlow && this.slow.size > 0)
  }
}

export class MessageTurns {
  /** True: clients are to send no more of a message than `leastTurnBytes` before its turn. */
  isTight = false
  readonly #clock: Clock
  readonly #memory: ClientMemory
  readonly #mostBytes: number
  readonly #mostWaiting: number
  readonly #later: (look: () => void) => void
  /** Lanes in which a message waits. */
  readonly #lanes = new Set<TurnLane>()
  readonly #turns = new Map<ArrivingMessage, Turn>()
  #arrivingBytes = 0
  #waitingCount = 0
  #servedBytes = 0
  /** Since the last look, of messages that are whole. */
  #endedBytes = 0
  #calmSinceNs = 0
  #isLookPlanned = false
  #cancelLook: Cancel | null = null

  constructor(dependencies: { clock: Clock; memory: ClientMemory; later?: (look: () => void) => void }) {
    this.#clock = dependencies.clock
    this.#memory = dependencies.memory
    this.#later = dependencies.later ?? setImmediate
    const { limitBytes } = dependencies.memory
    this.#mostBytes = Math.min(mostArrivingBytes, Math.floor(limitBytes * arrivingShare))
    this.#mostWaiting = Math.floor((limitBytes * waitingShare) / leastTurnBytes)
  }

  /** `now`: the message may arrive, until `end`. `later`: `onTurn` will be called, unless `end` comes first. `never`: too many wait. */
  ask(message: ArrivingMessage): 'now' | 'later' | 'never' {
    const { lane } = message
    if (this.#lanes.size === 0 && lane.mayGoOn && this.#mayBegin(message)) {
      this.#begin(message)
      return 'now'
    }
    // One message of each connection may wait, however many the others have.
    if (this.#waitingCount >= this.#mostWaiting && lane.waiting.size > 0) return 'never'
    this.#waitingCount++
    // A lane that comes back has no claim for the time in which it asked for nothing.
    if (lane.waiting.size === 0) lane.servedBytes = Math.max(lane.servedBytes, this.#servedBytes)
    lane.waiting.add(message)
    this.#lanes.add(lane)
    this.#tighten()
    return 'later'
  }

  /** The message is whole, or nobody wants it any more. Twice is fine. */
  end(message: ArrivingMessage): void {
    const turn = this.#turns.get(message)
    if (turn !== undefined) {
      this.#turns.delete(message)
      this.#arrivingBytes -= message.bytes
      this.#endedBytes += message.arrivedBytes - turn.arrivedAtLook
    } else if (!this.#endSlow(message)) this.#leave(message)
    this.lookSoon()
  }

  /** A lane is trusted again when a message of it came whole and in time. */
  #endSlow(message: ArrivingMessage): boolean {
    const { lane } = message
    const begunNs = lane.slow.get(message)
    if (begunNs === undefined) return false
    lane.slow.delete(message)
    const isInTime = begunNs >= 0 && this.#clock.nowNs() - begunNs < lookNs
    if (isInTime && message.arrivedBytes >= message.bytes) lane.isSlow = false
    return true
  }

  stop(): void {
    this.#cancelLook?.()
    this.#cancelLook = null
    this.#memory.waiting.delete(this.lookSoon)
  }

  /** Memory was given back, or a turn is over. */
  readonly lookSoon = (): void => {
    if (this.#lanes.size === 0 || this.#isLookPlanned) return
    this.#isLookPlanned = true
    // Later: whoever gave something back is not done yet.
    this.#later(() => {
      this.#isLookPlanned = false
      this.#look()
    })
  }

  #tighten(): void {
    this.#calmSinceNs = -1
    this.#memory.waiting.add(this.lookSoon)
    if (this.isTight) return
    this.isTight = true
    this.#lookLater()
  }

  #lookLater(): void {
    this.#cancelLook = this.#clock.after(lookNs, () => {
      this.#passOverSlow()
      this.#look()
      const nowNs = this.#clock.nowNs()
      if (this.#lanes.size > 0 || this.#calmSinceNs < 0) this.#calmSinceNs = nowNs
      this.isTight = nowNs - this.#calmSinceNs < calmNs
      this.#cancelLook = null
      if (this.isTight) this.#lookLater()
    })
  }

  /** Nobody waits for a client that has its turn and does not send. */
  #passOverSlow(): void {
    const isBusy = this.#endedBytes + this.#cameBytes() >= busyBytesPerLook
    this.#endedBytes = 0
    for (const turn of this.#turns.values()) {
      const { message } = turn
      const { arrivedBytes, lane } = message
      const isFast = arrivedBytes - turn.arrivedAtLook >= leastBytesPerLook
      turn.arrivedAtLook = arrivedBytes
      turn.lookCount++
      // At its first look a turn may have just begun.
      if (isFast || turn.lookCount === 1 || (isBusy && turn.lookCount <= mostBusyLooks)) continue
      this.#turns.delete(message)
      this.#arrivingBytes -= message.bytes
      lane.slow.set(message, -1)
      lane.isSlow = true
    }
  }

  /** Since the last look, of messages that are not whole. */
  #cameBytes(): number {
    let bytes = 0
    for (const { message, arrivedAtLook } of this.#turns.values()) bytes += message.arrivedBytes - arrivedAtLook
    return bytes
  }

  #look(): void {
    for (let lane = this.#next(); lane !== null; lane = this.#next()) {
      const [message] = lane.waiting
      if (message === undefined || !this.#mayBegin(message)) return
      this.#leave(message)
      this.#begin(message)
      message.onTurn()
    }
  }

  #next(): TurnLane | null {
    let next: TurnLane | null = null
    for (const lane of this.#lanes) {
      if (lane.mayGoOn && (next === null || lane.servedBytes < next.servedBytes)) next = lane
    }
    return next
  }

  #leave(message: ArrivingMessage): void {
    const { lane } = message
    if (!lane.waiting.delete(message)) return
    this.#waitingCount--
    if (lane.waiting.size === 0) this.#lanes.delete(lane)
    if (this.#lanes.size === 0) this.#memory.waiting.delete(this.lookSoon)
  }

  #begin(message: ArrivingMessage): void {
    const { lane, bytes } = message
    this.#servedBytes = Math.max(this.#servedBytes, lane.servedBytes)
    lane.servedBytes += bytes
    if (lane.isSlow) {
      lane.slow.set(message, this.#clock.nowNs())
      return
    }
    this.#turns.set(message, { message, arrivedAtLook: 0, lookCount: 0 })
    this.#arrivingBytes += bytes
  }

  /** Without anything on its way or in work no memory would come back: the message is tried, and refused where there is no room. */
  #mayBegin({ bytes, lane }: ArrivingMessage): boolean {
    const isAlone = this.#arrivingBytes === 0
    if (!lane.isSlow && !isAlone && this.#arrivingBytes + bytes > this.#mostBytes) return false
    if (!this.#memory.isPressedBy(this.#arrivingBytes + bytes)) return true
    return isAlone && this.#memory.inWorkCount === 0
  }
}
