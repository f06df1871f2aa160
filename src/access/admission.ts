import type { CallFacts } from './call-facts.ts'
import type { Caller } from './caller.ts'

/** Why a call may not pass. Each port has a table of its own codes for the reasons. */
export type RefusalReason = 'restricted'

export class Refusal {
  readonly reason: RefusalReason
  /** Says to the client what it lacks. */
  readonly message: string

  constructor(reason: RefusalReason, message: string) {
    this.reason = reason
    this.message = message
  }
}

export type Verdict = Caller | Refusal

/**
 * Stands before every call on every port: finds out who calls, or refuses. A port asks once per call, when the head of the
 * call is there and before its body is kept. A port without an Admission admits everybody as `anonymous`.
 */
export interface Admission {
  /** A promise only where something else must be asked, as a shared quota: a verdict at once costs nothing. */
  admit(facts: CallFacts): Verdict | Promise<Verdict>
}
