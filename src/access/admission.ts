import type { AdmissionFacts } from './admission-facts.ts'
import type { Caller } from './caller.ts'
import type { Refusal } from './refusal.ts'

export type Verdict = Caller | Refusal

/**
 * Finds out who makes a call, or refuses the call. A port asks its Admission once per call, when the head of the call
 * has arrived and before its body is kept; while a stream or a feed lasts the port asks again. A port without an Admission admits everybody as `anonymous`.
 */
export interface Admission {
  /** Returns a promise only when it must ask another server, as for a shared quota. A direct verdict costs nothing. */
  admit(facts: AdmissionFacts): Verdict | Promise<Verdict>
  /** Who makes a call that lasts, as far as is known now. Counts nothing. Left out: `admit` counts nothing either. */
  renew?(facts: AdmissionFacts): Verdict | Promise<Verdict>
}
