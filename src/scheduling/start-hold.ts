/**
 * Triton's TRITONSERVER_DELAY_SCHEDULER and TRITONSERVER_BACKLOG_DELAY_SCHEDULER: a model begins only when so many
 * requests wait. So a test knows which requests run together.
 */
export type StartHold = {
  readonly requestCount: number
  /** Of sequences that have no slot yet; they are not among the others. */
  readonly backlogCount: number
}

export const mayStart = (hold: StartHold, requestCount: number, backlogCount: number): boolean =>
  requestCount >= hold.requestCount && backlogCount >= hold.backlogCount
