// Decides whether a worker gets batches while it executes one. That saves two wake-ups per batch, about 70 µs, but a
// parked request dies with its worker. So only workers with short executions get batches ahead.

/** How many batches wait in the worker behind the one that executes; more gain nothing (docs/internals/python-worker.md). */
export const parkingDepth = 4

/** Parking starts below the lower limit and ends above the upper one, so that a model in between does not flap. */
export const parkBelowNs = 2.5e6
export const parkUntilNs = 5e6

/** A moving average over about eight executions. One long execution ends parking for a while. */
export const averageAfter = (averageNs: number, executionNs: number): number =>
  averageNs === 0 ? executionNs : averageNs + (executionNs - averageNs) / 8

/** `averageNs` 0: there was no execution yet. */
export const shouldPark = (isParking: boolean, averageNs: number): boolean =>
  averageNs > 0 && averageNs < (isParking ? parkUntilNs : parkBelowNs)
