import { batchPaddingOf, type BatchPadding } from '../config/batch-padding.ts'
import { readParameter } from '../config/model-parameters.ts'
import type { ModelConfig, ModelDynamicBatching, ModelQueuePolicy } from '../config/model-config.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import type { BatchQueueSettings, QueuePolicy } from './batch-queue.ts'
import type { OverloadSettings } from './overload-control.ts'
import { joinRule } from './join-rule.ts'
import type { BatchLimits } from './plan-batch.ts'
import type { StartHold } from './start-hold.ts'

export type DynamicBatchSettings = {
  readonly modelName?: string
  readonly limits: BatchLimits
  readonly queue: BatchQueueSettings
  readonly preservesOrder: boolean
  /** Null or absent: inputs are not padded. */
  readonly padding?: BatchPadding | null
  /** `slo_ms`; null or absent: the configuration fixes the delay. */
  readonly sloNs?: number | null
  /** Requests of a batch that failed run again, each alone; absent: they fail. */
  readonly runsFailedAlone?: boolean
  /** Null or absent: an overload is not looked for. */
  readonly overload?: OverloadSettings | null
  /** True: a request that finds the queue full is refused before it is read. */
  readonly refusesUnread?: boolean
  /** Null or absent: the first request may run. */
  readonly startHold?: StartHold | null
}

/** `config` must be valid. */
export function dynamicBatchSettings(
  config: ModelConfig,
  batching: ModelDynamicBatching,
  signature: ModelSignature,
  options: { readonly defaultMaxQueueSize: number } & Pick<
    DynamicBatchSettings,
    'overload' | 'refusesUnread' | 'startHold'
  >,
): DynamicBatchSettings {
  const maxBatchSize = Math.max(1, config.maxBatchSize)
  const { preferredBatchSize, defaultQueuePolicy, priorityQueuePolicy } = batching
  const padding = batchPaddingOf(config)
  const sloMs = readParameter(config, 'slo_ms')
  const policyByLevel = new Map<bigint, QueuePolicy>()
  for (const [level, policy] of priorityQueuePolicy) policyByLevel.set(level, queuePolicy(policy))
  return {
    modelName: config.name,
    limits: {
      maxBatchSize,
      preferredBatchSizes: new Set(preferredBatchSize),
      largestPreferredBatchSize: preferredBatchSize.length === 0 ? maxBatchSize : Math.max(...preferredBatchSize),
      maxQueueDelayNs: Number(batching.maxQueueDelayMicroseconds) * 1000,
      canJoin: joinRule(signature, { padding }),
    },
    queue: {
      priorityLevels: batching.priorityLevels,
      defaultPriorityLevel: batching.defaultPriorityLevel,
      defaultPolicy: defaultQueuePolicy === null ? null : queuePolicy(defaultQueuePolicy),
      policyByLevel,
      defaultMaxQueueSize: options.defaultMaxQueueSize,
    },
    preservesOrder: batching.preserveOrdering,
    padding,
    sloNs: sloMs === null ? null : sloMs * 1e6,
    // A decoupled model may have answered, or may still answer, before it fails: to run it twice would show.
    overload: options.overload ?? null,
    refusesUnread: options.refusesUnread === true,
    startHold: options.startHold ?? null,
    runsFailedAlone: !signature.isDecoupled && (readParameter(config, 'run_failed_batches_alone') ?? true),
  }
}

const queuePolicy = (policy: ModelQueuePolicy): QueuePolicy => ({
  timeoutAction: policy.timeoutAction,
  defaultTimeoutNs: Number(policy.defaultTimeoutMicroseconds) * 1000,
  allowsTimeoutOverride: policy.allowTimeoutOverride,
  maxQueueSize: policy.maxQueueSize === 0 ? Infinity : policy.maxQueueSize,
})
