// Faults that somebody asked for, to see what clients and rollouts do about them.

import type { ServerError } from '../base/server-error.ts'
import type { RequestOrigin } from './request-origin.ts'

export type InjectedFault = {
  /** How long the request waits before its model gets it; 0: not at all. */
  readonly delayNs: number
  /** The answer in place of the model's; null: the model answers. */
  readonly abort: ServerError | null
  /** The request counts for the judgement of a rollout as if the model had done it. */
  readonly isJudged: boolean
}

export interface FaultSource {
  /** Once per request from a client. `arm` is the arm of a rollout; '' where there is none. Null: no fault. HOT. */
  draw(origin: RequestOrigin, model: string, arm: string): InjectedFault | null
}

/** The header that says what was done to a request. */
export const faultHeader = 'galatea-fault'
