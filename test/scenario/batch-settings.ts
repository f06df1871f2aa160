import type { DynamicBatchSettings } from '../../src/scheduling/dynamic-batch-settings.ts'

/** A dynamic batcher of two rows that never waits for more, with at most `bound` requests in its queue. */
export const batchSettingsOf = (bound: number): DynamicBatchSettings => ({
  limits: {
    maxBatchSize: 2,
    preferredBatchSizes: new Set(),
    largestPreferredBatchSize: 2,
    maxQueueDelayNs: 0,
    canJoin: null,
  },
  queue: {
    priorityLevels: 0n,
    defaultPriorityLevel: 0n,
    defaultPolicy: null,
    policyByLevel: new Map(),
    defaultMaxQueueSize: bound,
  },
  preservesOrder: false,
})
