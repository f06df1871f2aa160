// How much may be begun in one turn of the event loop, by all clients together. One request never takes long, but a hundred
// that come at the same time do, and nobody else is served before the turn is over.

import { RingQueue } from './ring-queue.ts'

/** Reading or writing so many bytes counts as one unit: at most 0.25 ms, for the worst text there is. */
const unitBits = 12
const unitNs = 250_000
/** What is begun in one turn. The last thing may take more: a text of 256 KiB is 64 units. */
const mostUnits = 64
/** Below this nobody asks for a new turn: requests that come one by one cost an addition each. */
const freeUnits = 16

/** What one client asked for and waits for. */
type Line = { readonly who: object; readonly wanted: RingQueue<() => void> }

export class TurnBudget {
  /** Of those who wait, the one whose turn is next first. */
  readonly #lines = new RingQueue<Line>()
  readonly #lineOf = new Map<object, Line>()
  #waitingCount = 0
  #units = 0
  #isRenewing = false

  /** Something of so many bytes is done now. HOT: once per request and once per answer. */
  spend(bytes: number): void {
    this.#units += 1 + (bytes >>> unitBits)
    if (this.#units > freeUnits && !this.#isRenewing) this.#renewLater()
  }

  /** Something has taken this long: for what is not measured by its bytes. */
  spendNs(ns: number): void {
    this.spend(Math.floor(ns / unitNs) << unitBits)
  }

  /** True: what is not begun yet waits for `whenRenewed`. HOT. */
  get isSpent(): boolean {
    return this.#units > mostUnits
  }

  /**
   * Calls in a later turn. Those who wait are called one after the other, each for the first thing that it asked for: a connection with a
   * thousand requests would else keep all others waiting for seconds.
   */
  whenRenewed(goOn: () => void, who: object = goOn): void {
    this.#waitingCount++
    let line = this.#lineOf.get(who)
    if (line === undefined) {
      line = { who, wanted: new RingQueue() }
      this.#lineOf.set(who, line)
      this.#lines.push(line)
    }
    line.wanted.push(goOn)
    if (!this.#isRenewing) this.#renewLater()
  }

  /** Does something of so many bytes: at once, or when its turn has come. */
  take(bytes: number, act: () => void): void {
    const spendAndAct = (): void => {
      this.spend(bytes)
      act()
    }
    if (this.isSpent) this.whenRenewed(spendAndAct)
    else spendAndAct()
  }

  #renewLater(): void {
    this.#isRenewing = true
    setImmediate(() => this.#renew())
  }

  #renew(): void {
    this.#units = 0
    this.#isRenewing = false
    for (let left = this.#waitingCount; left > 0 && !this.isSpent; left--) this.#takeNext()?.()
    if (this.#waitingCount > 0 && !this.#isRenewing) this.#renewLater()
  }

  /** The first thing of the line whose turn it is. The rest of that line comes after all other lines. */
  #takeNext(): (() => void) | undefined {
    const line = this.#lines.take()
    if (line === undefined) return undefined
    this.#waitingCount--
    const goOn = line.wanted.take()
    if (line.wanted.size > 0) this.#lines.push(line)
    else this.#lineOf.delete(line.who)
    return goOn
  }
}

/** There is one event loop, so there is one budget for its turns. */
export const turnBudget = new TurnBudget()
