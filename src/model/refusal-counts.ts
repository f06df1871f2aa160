import type { ErrorCode, ServerError } from '../base/server-error.ts'

export const refusalReasons = ['invalid', 'not_found', 'unavailable', 'unsupported', 'too_large', 'internal'] as const
type RefusalReason = (typeof refusalReasons)[number]

const reasonOf: Readonly<Record<ErrorCode, RefusalReason>> = {
  UNKNOWN: 'invalid',
  INTERNAL: 'internal',
  NOT_FOUND: 'not_found',
  INVALID_ARG: 'invalid',
  UNAVAILABLE: 'unavailable',
  UNSUPPORTED: 'unsupported',
  ALREADY_EXISTS: 'invalid',
  CANCELLED: 'unavailable',
  FORBIDDEN: 'invalid',
  EXHAUSTED: 'unavailable',
}

/** Counts inference requests that ended before a model took them. No model's statistics count these requests. */
export class RefusalCounts {
  readonly counts: Record<RefusalReason, number> = {
    invalid: 0,
    not_found: 0,
    unavailable: 0,
    unsupported: 0,
    too_large: 0,
    internal: 0,
  }

  count(error: ServerError): void {
    this.counts[reasonOf[error.code]]++
  }

  countAs(reason: RefusalReason): void {
    this.counts[reason]++
  }
}
