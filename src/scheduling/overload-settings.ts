import type { ModelConfig, ModelDynamicBatching } from '../config/model-config.ts'
import { readParameter } from '../config/model-parameters.ts'
import type { OverloadSettings } from './overload-control.ts'

/** Null: an overload of this model is not looked for. `config` must be valid. */
export function overloadSettings(config: ModelConfig, defaultTargetMs: number): OverloadSettings | null {
  const targetMs = readParameter(config, 'queue_delay_target_ms') ?? defaultTargetMs
  const { dynamicBatching } = config
  // The requests of a sequence belong together, and an ensemble has no queue. A bound in the configuration is the bound.
  if (targetMs === 0 || config.sequenceBatching !== null || config.ensembleScheduling !== null) return null
  if (dynamicBatching !== null && hasBound(dynamicBatching)) return null
  const sloMs = readParameter(config, 'slo_ms') ?? 0
  return {
    targetNs: targetMs * 1e6,
    batchDelayNs: Math.max(sloMs * 1e6, Number(dynamicBatching?.maxQueueDelayMicroseconds ?? 0n) * 1000),
    maxBatchSize: dynamicBatching === null ? 1 : Math.max(1, config.maxBatchSize),
  }
}

function hasBound({ defaultQueuePolicy, priorityQueuePolicy }: ModelDynamicBatching): boolean {
  if ((defaultQueuePolicy?.maxQueueSize ?? 0) > 0) return true
  for (const { maxQueueSize } of priorityQueuePolicy.values()) if (maxQueueSize > 0) return true
  return false
}
