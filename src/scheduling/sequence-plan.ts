// Decides when sequences of one Instance run, and how many. Pure: no clock, no timer.

export type SequenceBatchLimits = {
  /** Most rows of one execution; 1 for a model that does not batch. */
  readonly maxBatchSize: number
  readonly delayNs: number
  /** Direct: the share of the slots that must have a request for a batch to run before the delay ends; 0: no wait. */
  readonly minimumSlotUtilization: number
  /** Oldest: batch sizes that run before the delay ends. Empty for direct. */
  readonly preferredSizes: readonly number[]
}

type SequenceBatchPlan =
  | { readonly kind: 'idle' }
  | { readonly kind: 'wait'; readonly untilNs: number }
  | { readonly kind: 'run'; readonly sequenceCount: number }

const idle: SequenceBatchPlan = { kind: 'idle' }

/** `readyCount` sequences have a request that may run; the oldest of these requests came at `oldestNs`. */
export function planSequenceBatch(
  limits: SequenceBatchLimits,
  {
    readyCount,
    slotCount,
    oldestNs,
    nowNs,
  }: { readyCount: number; slotCount: number; oldestNs: number; nowNs: number },
): SequenceBatchPlan {
  if (readyCount === 0) return idle
  const most = Math.min(readyCount, limits.maxBatchSize)
  const isOver = limits.delayNs === 0 || nowNs >= oldestNs + limits.delayNs
  if (limits.preferredSizes.length > 0) {
    const preferred = Math.max(0, ...limits.preferredSizes.filter((size) => size <= most))
    if (preferred > 0) return { kind: 'run', sequenceCount: isOver ? most : preferred }
    if (most === limits.maxBatchSize) return { kind: 'run', sequenceCount: most }
  } else if (readyCount >= limits.minimumSlotUtilization * slotCount) return { kind: 'run', sequenceCount: most }
  if (isOver) return { kind: 'run', sequenceCount: most }
  return { kind: 'wait', untilNs: oldestNs + limits.delayNs }
}
