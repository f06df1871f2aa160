/** Why a call may not pass. Each port has a table of its own codes for the reasons. */
export type RefusalReason = 'unauthenticated' | 'restricted' | 'forbidden' | 'exhausted'

export type Refusal = {
  readonly kind: 'refused'
  readonly reason: RefusalReason
  /** Says to the client what it lacks. */
  readonly message: string
  /** Name, value… of HTTP headers that the refusal needs. Left out: none. */
  readonly headers?: readonly string[]
  /** When the call may come again. Left out: the client is not told. */
  readonly retryAfterMs?: number
}
