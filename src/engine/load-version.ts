// Brings one version of a model to life: complete its configuration, check it, load it, make its instances.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import type { Backend, Instance, InstanceSpec, LoadedModel, ModelFiles } from '../model/backend.ts'
import type { ModelConfig, ModelInstanceGroup, ModelRateLimiter } from '../model/model-config.ts'
import { ModelSignature } from '../model/model-signature.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { normaliseAfterComplete, normaliseInstanceGroups } from '../model/normalise-model-config.ts'
import { validateLoadedConfig } from '../model/validate-model-config.ts'
import { readInitialStates } from '../repository/initial-states.ts'
import { readLabels } from '../repository/labels.ts'
import { DirectScheduler } from '../scheduling/direct-scheduler.ts'
import { DynamicBatchScheduler } from '../scheduling/dynamic-batch-scheduler.ts'
import { dynamicBatchSettings } from '../scheduling/dynamic-batch-settings.ts'
import type { LimitedInstance, RateLimiter } from '../scheduling/rate-limiter.ts'
import { SequenceScheduler } from '../scheduling/sequence-scheduler.ts'
import { sequenceSettings } from '../scheduling/sequence-settings.ts'
import { executedSignature } from '../scheduling/sequence-signature.ts'
import type { ResponseCache } from './response-cache.ts'
import { ResponseCacheScheduler } from './response-cache-scheduler.ts'
import type { LoadedParts } from './served-version.ts'
import { warmUp } from './warm-up.ts'

export type LoadDependencies = {
  /** Null or absent: `--cache-config` was not given. */
  readonly responseCache?: ResponseCache | null
  /** Null or absent: `--rate-limit=off`. */
  readonly rateLimiter?: RateLimiter | null
  readonly clock: Clock
  readonly log: Log
  /** The Backend of that name, made or found on first use; null when there is none. */
  findBackend(name: string): Promise<Backend | null>
}

export type LoadSettings = {
  readonly isAutoCompleteDisabled: boolean
  readonly gpuCount: number
  /** For a model that sets no `max_queue_size`. 'auto' = max(100, 8 × max_batch_size × instances). */
  readonly defaultMaxQueueSize: 'auto' | 'unlimited' | number
  /** `--triton-defaults`: refuse what Triton's way of leaving out unneeded steps refuses. */
  readonly prunesEnsemblesLikeTriton?: boolean
}

/** `draft` is the polled configuration; it is not changed. Frees what it made when a later step fails. */
export async function loadVersion(
  dependencies: LoadDependencies,
  settings: LoadSettings,
  draft: ModelConfig,
  files: ModelFiles,
  onReadinessChange: () => void,
): Promise<LoadedParts> {
  refuseIterativeSequences(draft)
  const backend = await dependencies.findBackend(draft.backend)
  if (backend === null) {
    throw new ServerError(
      'INVALID_ARG',
      `unable to find backend library for backend '${draft.backend}', try specifying runtime on the model configuration.`,
    )
  }
  let config = structuredClone(draft)
  if (!settings.isAutoCompleteDisabled) config = await backend.complete(config, files)
  normaliseAfterComplete(config)
  normaliseInstanceGroups(config, settings)
  validateLoadedConfig(config, { gpuCount: settings.gpuCount })
  const signature = new ModelSignature(config, await readLabels(config, files.modelDirectory))
  const { name } = config
  const initialStates = await readInitialStates(config, files.modelDirectory)
  const executed = config.sequenceBatching === null ? signature : executedSignature(config)
  const { version } = files
  const loaded = await backend.load({ name, version, config, signature: executed, files, log: dependencies.log })
  let made: readonly Instance[] = []
  try {
    const { serving, instances, plans } = await createInstances(loaded, config, onReadinessChange)
    made = instances
    const limits = limitInstances(dependencies.rateLimiter ?? null, serving, plans)
    await warmUp(dependencies.log, { config, signature: executed, modelDirectory: files.modelDirectory }, instances)
    const uncached = createScheduler(dependencies.clock, settings, config, signature, limits.serving, initialStates)
    const scheduler = cachedScheduler(dependencies, config, version, uncached)
    limits.start(() => scheduler.instancesChanged())
    return { config, signature, loaded: limits.freedWith(loaded), instances, scheduler }
  } catch (reason) {
    await Promise.allSettled(made.map((instance) => instance.close()))
    await loaded.close()
    throw reason
  }
}

/** Serving such a model one request at a time would give wrong answers, so it is refused rather than half served. */
function refuseIterativeSequences(config: ModelConfig): void {
  if (config.sequenceBatching?.iterativeSequence !== true) return
  throw new ServerError(
    'UNSUPPORTED',
    `sequence_batching.iterative_sequence of model '${config.name}' is not available in this version of Galatea`,
  )
}

type InstanceLimits = {
  readonly serving: readonly Instance[]
  start(wake: () => void): void
  /** The model, whose end gives back what its instances claim. */
  freedWith(loaded: LoadedModel): LoadedModel
}

/** Instances that claim resources, as the rate limiter lets them run; the others as they are. */
function limitInstances(
  limiter: RateLimiter | null,
  instances: readonly Instance[],
  plans: readonly InstancePlan[],
): InstanceLimits {
  const members: LimitedInstance[] = []
  const forget = (): void => members.forEach((member) => limiter?.forget(member))
  try {
    const serving = instances.map((instance, index) => {
      const { rateLimiter = null, deviceId = 0 } = plans[index] ?? {}
      if (limiter === null || rateLimiter === null || rateLimiter.resources.length === 0) return instance
      const resources = rateLimiter.resources.map(({ name, count, global }) => ({ name, count, isGlobal: global }))
      const member = limiter.limit(instance, { resources, priority: rateLimiter.priority, deviceId })
      members.push(member)
      return member
    })
    return {
      serving,
      start: (wake) => members.forEach((member) => (member.wake = wake)),
      freedWith: (loaded) =>
        members.length === 0
          ? loaded
          : {
              createInstance: (spec) => loaded.createInstance(spec),
              close: () => {
                forget()
                return loaded.close()
              },
            },
    }
  } catch (reason) {
    forget()
    throw reason
  }
}

/** The cache answers first where the server has one and the model wants it. */
export function cachedScheduler(
  { clock, responseCache }: Pick<LoadDependencies, 'clock' | 'responseCache'>,
  config: ModelConfig,
  version: string,
  scheduler: Scheduler,
): Scheduler {
  if (responseCache === undefined || responseCache === null || config.responseCache?.enable !== true) return scheduler
  return new ResponseCacheScheduler(
    { clock, cache: responseCache },
    scheduler,
    responseCache.prefixFor(config.name, version),
  )
}

function createScheduler(
  clock: Clock,
  settings: LoadSettings,
  config: ModelConfig,
  signature: ModelSignature,
  instances: readonly Instance[],
  initialStates: ReadonlyMap<string, Uint8Array>,
): Scheduler {
  const maxQueueSize = queueBound(settings, config, instances.length)
  const afterThisTurn = (fire: () => void): void => void setImmediate(fire)
  if (config.sequenceBatching !== null) {
    const sequences = sequenceSettings(config, config.sequenceBatching, signature, { maxQueueSize, initialStates })
    return new SequenceScheduler({ clock, afterThisTurn }, instances, sequences)
  }
  if (config.dynamicBatching === null) return new DirectScheduler({ clock }, instances, { maxQueueSize })
  // An ONNX model is given one tensor per input, so its requests must agree in shape; other backends get each request's own.
  const options = { defaultMaxQueueSize: maxQueueSize, acceptsRagged: config.backend !== 'onnxruntime' }
  const batching = dynamicBatchSettings(config, config.dynamicBatching, signature, options)
  return new DynamicBatchScheduler({ clock, afterThisTurn }, instances, batching)
}

function queueBound(settings: LoadSettings, config: ModelConfig, instanceCount: number): number {
  switch (settings.defaultMaxQueueSize) {
    case 'unlimited':
      return Infinity
    case 'auto':
      return Math.max(100, 8 * Math.max(1, config.maxBatchSize) * instanceCount)
    default:
      return settings.defaultMaxQueueSize
  }
}

type InstancePlan = Omit<InstanceSpec, 'index' | 'onReadinessChange'> & {
  readonly isPassive: boolean
  readonly rateLimiter: ModelRateLimiter | null
}

/** The instances that a normalised group asks for: `count` on the CPU, or on each of its GPUs. */
function plansOf(group: ModelInstanceGroup): InstancePlan[] {
  const kind = group.kind === 'KIND_AUTO' ? 'KIND_CPU' : group.kind
  const devices = kind === 'KIND_GPU' ? group.gpus : [0]
  const plans: InstancePlan[] = []
  for (const deviceId of devices) {
    for (let i = 0; i < group.count; i++) {
      plans.push({
        name: `${group.name}_${plans.length}`,
        kind,
        deviceId,
        isPassive: group.passive,
        rateLimiter: group.rateLimiter,
      })
    }
  }
  return plans
}

async function createInstances(
  loaded: LoadedModel,
  config: ModelConfig,
  onReadinessChange: () => void,
): Promise<{ instances: Instance[]; serving: Instance[]; plans: InstancePlan[] }> {
  const plans = config.instanceGroup.flatMap(plansOf)
  const results = await Promise.allSettled(
    plans.map(({ name, kind, deviceId }, index) =>
      loaded.createInstance({ name, kind, deviceId, index, onReadinessChange }),
    ),
  )
  const instances: Instance[] = []
  const serving: Instance[] = []
  const servingPlans: InstancePlan[] = []
  const failures: unknown[] = []
  for (const [index, result] of results.entries()) {
    if (result.status === 'rejected') {
      failures.push(result.reason)
      continue
    }
    instances.push(result.value)
    const plan = plans[index]
    if (plan === undefined || plan.isPassive) continue
    serving.push(result.value)
    servingPlans.push(plan)
  }
  if (failures.length > 0) {
    await Promise.allSettled(instances.map((instance) => instance.close()))
    throw failures[0]
  }
  return { instances, serving, plans: servingPlans }
}
