// Limits on frames that cost the server work and are of no use: so many at once, and so many per second after that. A
// client beyond a limit attacks the server (rapid reset, floods of pings, settings, empty frames), or is broken.

import type { Clock } from '../../base/clock.ts'
import { errorCodes } from './http2-format.ts'
import { Http2Error } from './http2-error.ts'

type BudgetedEvent = 'reset' | 'ping' | 'settings' | 'empty data' | 'idle frame' | 'tiny frame'

const budgets: Readonly<Record<BudgetedEvent, { readonly burst: number; readonly perSecond: number }>> = {
  // An honest client may cancel many calls right away, but not more than this at once. Streams that the server had to reset count too.
  reset: { burst: 5000, perSecond: 500 },
  ping: { burst: 1000, perSecond: 50 },
  settings: { burst: 100, perSecond: 10 },
  'empty data': { burst: 1000, perSecond: 100 },
  // PRIORITY, unknown frames, and frames for streams that are gone.
  'idle frame': { burst: 10_000, perSecond: 1000 },
  // Small frames of an answer, because the client opens its window by a few bytes at a time.
  'tiny frame': { burst: 20_000, perSecond: 1000 },
}

/** A call that its client cancels after so long was no attack: where a model is overloaded, many calls reach their deadlines. */
const patienceNs = 10e6

type Account = { left: number; atNs: number }

export class FrameBudget {
  readonly #clock: Clock
  /** Made when an event first happens: on most connections none of them does. */
  readonly #accounts = new Map<BudgetedEvent, Account>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Throws Http2Error when the event happened too often. */
  charge(event: BudgetedEvent): void {
    const { burst, perSecond } = budgets[event]
    const nowNs = this.#clock.nowNs()
    let account = this.#accounts.get(event)
    if (account === undefined) {
      account = { left: burst, atNs: nowNs }
      this.#accounts.set(event, account)
    }
    account.left = Math.min(burst, account.left + ((nowNs - account.atNs) / 1e9) * perSecond)
    account.atNs = nowNs
    if (account.left < 1) throw new Http2Error(errorCodes.ENHANCE_YOUR_CALM, `too many of: ${event}`)
    account.left--
  }
  /** When a call opens: the time, or 0 where much is left for resets. On most connections nobody looks at a clock. */
  openedNs(): number {
    const account = this.#accounts.get('reset')
    return account === undefined || account.left > budgets.reset.burst / 2 ? 0 : this.#clock.nowNs()
  }

  /** The client cancels a call that was opened then. */
  chargeCancel(openedNs: number): void {
    if (openedNs === 0 || this.#clock.nowNs() - openedNs < patienceNs) this.charge('reset')
  }
}
