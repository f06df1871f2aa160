import type { ServerError } from '../base/server-error.ts'

/** Why a queue refused a request that is valid. */
export const queueRefusals = ['queue_full', 'overload', 'deadline', 'fair_share'] as const
export type QueueRefusal = (typeof queueRefusals)[number]

/**
 * CALM: first in, first out.
 * NEWEST_FIRST: requests that come now run before those that wait. Nobody is refused.
 * REFUSING: and of the requests that come, no more may wait than can run within the target.
 */
export type OverloadState = 'CALM' | 'NEWEST_FIRST' | 'REFUSING'

/** What a queue says about itself. */
export interface QueueReport {
  readonly state: OverloadState
  /** Requests that were refused so far. */
  readonly counts: Readonly<Record<QueueRefusal, number>>
}

/** Asked before a request is read, so that a refusal costs little. */
export interface QueueDoor {
  /** A request that comes now would be refused, whatever it says. */
  readonly isShut: boolean
  /** The refusal of a request that came while the door was shut. Counts the request. */
  turnAway(): ServerError
  /** As many requests wait as may, all of them of this tenant: its next one would be refused, whatever it says. HOT. */
  isFullFor(tenant: string): boolean
  /** The refusal of a request that came while the queue was full. Counts the request. */
  turnAwayFromFull(): ServerError
}
