import type { CallFacts } from './call-facts.ts'
import type { Caller } from './caller.ts'

/** Why a call may not pass. Each port has a table of its own codes for the reasons. */
export type RefusalReason = 'unauthenticated' | 'restricted' | 'forbidden' | 'exhausted'

export type Refusal = {
  readonly kind: 'refused'
  readonly reason: RefusalReason
  /** Says to the client what it lacks. */
  readonly message: string
}

export type Verdict = Caller | Refusal

/**
 * Finds out who makes a call, or refuses the call. A port asks its Admission once per call, when the head of the call
 * has arrived and before its body is kept. A port without an Admission admits everybody as `anonymous`.
 */
export interface Admission {
  /** Returns a promise only when it must ask another server, as for a shared quota. A direct verdict costs nothing. */
  admit(facts: CallFacts): Verdict | Promise<Verdict>
}
