// Decides which waiting requests form the next batch, and whether the batch leaves now. Pure: no clock, no timer.

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
  /** Most rows of a batch; at least 1. */
  readonly maxBatchSize: number
  readonly preferredBatchSizes: ReadonlySet<number>
  /** maxBatchSize when none is preferred. */
  readonly largestPreferredBatchSize: number
  /** 0: never wait for more requests. */
  readonly maxQueueDelayNs: number
  /** Whether `next` may run in the batch that `first` began; null: every request may. */
  readonly canJoin: ((first: InferenceRequest, next: InferenceRequest) => boolean) | null
}

/** The first `requestCount` requests are a batch of `batchSize` rows: now, or at `untilNs` when no more come. */
type BatchPlan =
  | { readonly kind: 'idle' }
  | { readonly kind: 'wait'; readonly untilNs: number; readonly requestCount: number; readonly batchSize: number }
  | { readonly kind: 'run'; readonly requestCount: number; readonly batchSize: number }

const idle: BatchPlan = { kind: 'idle' }

/**
 * Triton's rule. A batch of a preferred size leaves at once, with the largest possible preferred size. A batch that
 * cannot grow leaves at once too. Any other batch waits until its oldest request has waited the whole delay. A delay
 * from the latest request would hold a batch back for ever under a steady trickle. A request is never split; a request
 * larger than every preferred size runs too. HOT: once per batch and per wait.
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
      // No preferred size was reached, and this request goes beyond all of them: the batch so far counts as preferred.
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
    // No request can join a full batch, and no larger size is preferred.
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
