import type { ServerError } from '../base/server-error.ts'
import type { AdmissionFacts } from './admission-facts.ts'
import type { Refusal } from './refusal.ts'

/** What one inference used. */
export type Use = {
  readonly model: string
  /** Rows; 1 for a model without batching. */
  readonly rows: number
  readonly tokens: number
  readonly computeNs: number
}

/** What a tenant uses is counted here, against its limits. */
export interface Account {
  readonly tenant: string
  /** Of the fair shares in queues. */
  readonly weight: number
  /** False: the tenant has no limits, and its answers say nothing of them. HOT. */
  readonly isLimited: boolean
  /** A call comes, its body is not read yet. Null: it may pass. A promise where servers share the limits, and must ask. HOT. */
  admit(facts: AdmissionFacts, nowNs: number): Refusal | null | Promise<Refusal | null>
  /**
   * An inference begins. `bytes` are those of its body that `admit` could not know; `isRequest`: `admit` has not seen this one,
   * because it is a message of a stream. An error: the inference may not begin. After null comes exactly one `end`. HOT.
   */
  begin(rows: number, bytes: number, isRequest: boolean): ServerError | null
  /** HOT. */
  end(use: Use): void
  /** Name, value… of the headers that every HTTP answer to the tenant has; null for none. */
  answerHeaders(): readonly string[] | null
}
