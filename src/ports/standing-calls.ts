// Calls that last as long as the client likes: streams of requests, feeds. While they last it is asked again who calls, so that a key that
// was revoked, a token that ran out and a right that was taken away end them, too.

import type { Admission, Verdict } from '../access/admission.ts'
import type { AdmissionFacts } from '../access/admission-facts.ts'
import type { Caller } from '../access/caller.ts'
import type { Refusal } from '../access/refusal.ts'
import type { Cancel, Clock } from '../base/clock.ts'
import { runInSlices } from '../base/run-in-slices.ts'

const askEveryNs = 2e9
/** One takes about a microsecond. */
const callsPerStep = 100

type StandingCall = {
  readonly facts: AdmissionFacts
  isOver(): boolean
  /** The caller as it is known now: its rights may have changed. */
  renewed(caller: Caller): void
  end(refusal: Refusal): void
}

export class StandingCalls {
  readonly #clock: Clock
  readonly #admission: Admission
  readonly #calls = new Set<StandingCall>()
  #cancel: Cancel | null = null
  #isClosed = false

  constructor(clock: Clock, admission: Admission) {
    this.#clock = clock
    this.#admission = admission
  }

  add(call: StandingCall): void {
    this.#calls.add(call)
    this.#askLater()
  }

  close(): void {
    this.#isClosed = true
    this.#calls.clear()
    this.#cancel?.()
  }

  /** A port without such calls has no timer. */
  #askLater(): void {
    if (this.#cancel !== null || this.#isClosed || this.#calls.size === 0) return
    this.#cancel = this.#clock.after(askEveryNs, () => {
      runInSlices(
        this.#clock,
        this.#askAll(),
        () => !this.#isClosed,
        () => {
          this.#cancel = null
          this.#askLater()
        },
      )
    })
  }

  *#askAll(): Generator<void, void> {
    let asked = 0
    for (const call of this.#calls) {
      if (call.isOver()) this.#calls.delete(call)
      else this.#ask(call)
      if (++asked % callsPerStep === 0) yield
    }
  }

  #ask(call: StandingCall): void {
    const verdict = this.#admission.renew?.(call.facts) ?? this.#admission.admit(call.facts)
    if (!(verdict instanceof Promise)) this.#judge(call, verdict)
    // Who calls cannot be found out at this moment: it is asked again.
    else void verdict.then((known) => this.#judge(call, known)).catch(() => undefined)
  }

  #judge(call: StandingCall, verdict: Verdict): void {
    if (call.isOver()) return
    if (verdict.kind !== 'refused') {
      call.renewed(verdict)
      return
    }
    this.#calls.delete(call)
    call.end(verdict)
  }
}
