import type { LimitRule } from './limit-rule.ts'

export type Lease = {
  /** Units that this server may use. */
  readonly granted: number
  /** Until one unit more is there; 0: it is there. */
  readonly waitNs: number
  /** Units that are left in the store. */
  readonly left: number
}

/** Where several servers count the use of one limit. */
export interface LimitStore {
  /** False: each server counts for itself for now. */
  readonly isUp: boolean
  /** True: while the store is away, calls are refused. */
  readonly isClosedWhenAway: boolean
  /** Pays `debt`, whatever is left, and takes up to `want` units more. Throws when the store is away. */
  lease(key: string, rule: Exclude<LimitRule, { kind: 'concurrent' }>, debt: number, want: number): Promise<Lease>
}
