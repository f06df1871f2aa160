// Fills in what a configuration leaves to the server: Triton's defaults, visible in its /config answer. Each function
// changes the draft it is given, so that a backend and the server complete one and the same object.

import { isEnsemble, knownBackend } from './known-backends.ts'
import { configMessage, type ModelConfig, type ModelInstanceGroup } from './model-config.ts'
import { scaleLimitsOf } from './scale-limits.ts'

const defaultSequenceIdleMicroseconds = 1_000_000n

/**
 * Everything that depends on nothing but the configuration itself. The server calls this function when it has read the
 * configuration, and again when the backend has completed the draft: the backend may set the batch size or the scheduler.
 */
export function normaliseModelConfig(config: ModelConfig): void {
  config.versionPolicy ??= { latest: { numVersions: 1 }, all: null, specific: null }
  normaliseScheduling(config)
  if (config.ensembleScheduling === null) {
    config.optimization ??= configMessage('ModelOptimizationPolicy')
    config.optimization.inputPinnedMemory ??= { enable: true }
    config.optimization.outputPinnedMemory ??= { enable: true }
  }
}

function normaliseScheduling(config: ModelConfig): void {
  const { dynamicBatching, sequenceBatching } = config
  const fillPreferred = (sizes: number[]): void => {
    if (sizes.length === 0 && config.maxBatchSize > 0) sizes.push(config.maxBatchSize)
  }
  if (dynamicBatching !== null) fillPreferred(dynamicBatching.preferredBatchSize)
  if (sequenceBatching === null) return
  if (sequenceBatching.maxSequenceIdleMicroseconds === 0n) {
    sequenceBatching.maxSequenceIdleMicroseconds = defaultSequenceIdleMicroseconds
  }
  if (sequenceBatching.oldest !== null) fillPreferred(sequenceBatching.oldest.preferredBatchSize)
}

/** `usesGpus`: whether the backend takes a group without a kind to a GPU; absent: as the backend is known for. */
type DeviceFacts = { readonly gpuCount: number; readonly usesGpus?: boolean | undefined }

/** At load, when the backend and the devices are known. `host_policy` stays as written, as in Triton's answer. */
export function normaliseInstanceGroups(config: ModelConfig, { gpuCount, usesGpus }: DeviceFacts): void {
  if (config.ensembleScheduling !== null || isEnsemble(config)) return
  if (config.instanceGroup.length === 0)
    config.instanceGroup.push(configMessage('ModelInstanceGroup', { name: config.name }))
  for (const [index, group] of config.instanceGroup.entries()) {
    if (group.name === '') group.name = `${config.name}_${index}`
    if (group.kind === 'KIND_AUTO') {
      const isForGpus = usesGpus ?? knownBackend(config.backend)?.usesGpus ?? true
      group.kind = isForGpus && canUseGpus(group, gpuCount) ? 'KIND_GPU' : 'KIND_CPU'
    }
    if (group.count < 1) group.count = usualCount(config.backend, group.kind)
    const limits = group.passive ? null : scaleLimitsOf(config)
    if (limits !== null) group.count = Math.min(limits.max, Math.max(limits.min, group.count))
    if (group.kind === 'KIND_GPU' && group.gpus.length === 0) {
      group.gpus = Array.from({ length: gpuCount }, (_, id) => id)
    }
  }
}

const canUseGpus = (group: ModelInstanceGroup, gpuCount: number): boolean =>
  gpuCount > 0 && group.gpus.every((id) => id >= 0 && id < gpuCount)

/** Instances of a group that gives no count. */
function usualCount(backend: string, kind: ModelInstanceGroup['kind']): number {
  const known = knownBackend(backend)
  if (kind === 'KIND_CPU') return known?.cpuInstanceCount ?? 1
  return kind === 'KIND_GPU' ? (known?.gpuInstanceCount ?? 1) : 1
}
