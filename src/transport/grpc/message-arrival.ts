// The turn of the message that a call receives now.

import type { Http2Stream } from '../http2/http2-stream.ts'
import { MessageUnwelcome } from './message-assembler.ts'
import { leastTurnBytes, type ArrivingMessage, type MessageTurns, type TurnLane } from '../message-turns.ts'

/** What the calls of a connection share. */
export type TurnSurroundings = {
  readonly turns: MessageTurns
  readonly lane: TurnLane
  /** Messages of the connection that have their turn. */
  readonly arriving: Set<{ openWindow(): void }>
  /** The client is told of other windows, where they have changed. */
  readonly followWindows: () => void
}

/** Some clients send whole frames only: less than the least size of the largest frame may be left of their window. */
const smallestFrameBytes = 16 * 1024

type ArrivalState = 'none' | 'waiting' | 'arriving'

export class MessageArrival implements ArrivingMessage {
  readonly lane: TurnLane
  bytes = 0
  readonly #stream: Http2Stream
  readonly #surroundings: TurnSurroundings
  readonly #goOn: () => void
  #state: ArrivalState = 'none'
  #receivedBefore = 0

  constructor(stream: Http2Stream, surroundings: TurnSurroundings, goOn: () => void) {
    this.lane = surroundings.lane
    this.#stream = stream
    this.#surroundings = surroundings
    this.#goOn = goOn
  }

  get isWaiting(): boolean {
    return this.#state === 'waiting'
  }

  /** The client may send more of its beginning before the turn, and does not. */
  get isAwaited(): boolean {
    return this.#state === 'waiting' && this.#stream.receiveWindowBytes >= smallestFrameBytes
  }

  get arrivedBytes(): number {
    return this.#stream.receivedBytes - this.#receivedBefore
  }

  /** False: `goOn` is called when the message may be collected. `arrivedBytes` of it are there. Throws MessageUnwelcome. */
  mayBegin(messageBytes: number, arrivedBytes: number): boolean {
    if (this.#state !== 'none' || messageBytes <= leastTurnBytes) return this.#state !== 'waiting'
    const { turns, followWindows } = this.#surroundings
    this.bytes = messageBytes
    this.#receivedBefore = this.#stream.receivedBytes - arrivedBytes
    const turn = turns.ask(this)
    if (turn === 'never') throw new MessageUnwelcome(messageBytes)
    if (turn === 'now') this.#begin()
    else this.#state = 'waiting'
    followWindows()
    return turn === 'now'
  }

  onTurn(): void {
    this.#begin()
    this.#goOn()
  }

  openWindow(): void {
    this.#stream.openWindowFor(this.bytes - this.arrivedBytes)
  }

  /** The message is whole, or the call has ended. Twice is fine. */
  end(): void {
    if (this.#state === 'none') return
    this.#state = 'none'
    this.#surroundings.arriving.delete(this)
    this.#surroundings.turns.end(this)
  }

  #begin(): void {
    this.#state = 'arriving'
    this.#surroundings.arriving.add(this)
    this.openWindow()
  }
}
