// Which of the waiting requests form the next batch, and whether to send it now. Pure: no clock, no timer.

import type { InferenceRequest } from '../model/inference-request.ts'

export interface Waiting {
  readonly request: InferenceRequest
  /** At least 1. */
  readonly rows: number
  readonly enqueuedNs: number
}

/** The waiting requests in the order in which they are to run. */
export interface WaitingLine<T extends Waiting> {
  first(): T | null
  after(waiting: T): T | null
}

export type BatchLimits = {
  /** Rows; at least 1. */
  readonly maxBatchSize: number
  readonly preferredBatchSizes: ReadonlySet<number>
  /** maxBatchSize when none is preferred. */
  readonly largestPreferredBatchSize: number
  /** 0: never wait for more requests. */
  readonly maxQueueDelayNs: number
  /** Whether a request may run in the batch that another one began; null when any may. */
  readonly canJoin: ((first: InferenceRequest, next: InferenceRequest) => boolean) | null
}

/** `requestCount` requests from the front of the line make a batch of `batchSize` rows: now, or at `untilNs` if no more come. */
type BatchPlan =
  | { readonly kind: 'idle' }
  | { readonly kind: 'wait'; readonly untilNs: number; readonly requestCount: number; readonly batchSize: number }
  | { readonly kind: 'run'; readonly requestCount: number; readonly batchSize: number }

const idle: BatchPlan = { kind: 'idle' }

/**
 * Triton's rule. A batch of a preferred size leaves at once, the largest such one; so does one that cannot grow. Any
 * other waits until its oldest request has waited the whole delay. The delay counts from the oldest request, not the
 * last: else a steady trickle would hold a batch back for ever. A request is never split; one larger than every
 * preferred size runs all the same. HOT: once per batch and per wait.
 */
export function planBatch<T extends Waiting>(
  line: WaitingLine<T>,
  limits: BatchLimits,
  nowNs: number,
  maxQueueDelayNs = limits.maxQueueDelayNs,
): BatchPlan {
  const first = line.first()
  if (first === null) return idle
  const { maxBatchSize, preferredBatchSizes, largestPreferredBatchSize, canJoin } = limits
  let requestCount = 0
  let batchSize = 0
  let bestCount = 0
  let bestSize = 0
  let oldestNs = first.enqueuedNs
  let isClosed = false
  for (let waiting: T | null = first; waiting !== null; waiting = line.after(waiting)) {
    if (requestCount > 0) {
      const next = batchSize + waiting.rows
      // No preferred size was met, and with this request none will be: what there is counts as one.
      if (bestCount === 0 && next > largestPreferredBatchSize) {
        bestCount = requestCount
        bestSize = batchSize
      }
      if (next > maxBatchSize || (canJoin !== null && !canJoin(first.request, waiting.request))) {
        isClosed = true
        break
      }
    }
    requestCount++
    batchSize += waiting.rows
    if (waiting.enqueuedNs < oldestNs) oldestNs = waiting.enqueuedNs
    if (preferredBatchSizes.has(batchSize)) {
      bestCount = requestCount
      bestSize = batchSize
    }
    // Nothing more can join a full batch, and nothing larger is preferred.
    if (batchSize >= maxBatchSize) {
      isClosed = true
      break
    }
  }
  const untilNs = oldestNs + maxQueueDelayNs
  const isLate = maxQueueDelayNs > 0 && nowNs >= untilNs
  if (bestCount > 0 && !isLate) return { kind: 'run', requestCount: bestCount, batchSize: bestSize }
  if (isClosed || batchSize >= largestPreferredBatchSize || isLate || maxQueueDelayNs === 0) {
    return { kind: 'run', requestCount, batchSize }
  }
  return { kind: 'wait', untilNs, requestCount, batchSize }
}
