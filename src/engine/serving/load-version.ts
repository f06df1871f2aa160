// Loads one version of a model: completes its configuration, checks it, loads the files, makes the Instances.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Backend, Instance, LoadedModel, ModelFiles } from '../../model/backend.ts'
import { backendAdvice } from '../../config/known-backends.ts'
import type { CoresOf } from '../../config/host-policy.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import { ModelSignature } from '../../config/model-signature.ts'
import type { Scheduler } from '../../model/scheduler.ts'
import { normaliseModelConfig, normaliseInstanceGroups } from '../../config/normalise-model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import { activeGroups, scaleLimitsOf, withInstanceCount } from '../../config/scale-limits.ts'
import { validateLoadedConfig } from '../../config/validate-model-config.ts'
import { readInitialStates } from '../../repository/initial-states.ts'
import { readLabels } from '../../repository/labels.ts'
import type { FoundModel } from '../../repository/model-repository.ts'
import { DirectScheduler } from '../../scheduling/direct-scheduler.ts'
import { overloadSettings } from '../../scheduling/overload-settings.ts'
import { DynamicBatchScheduler } from '../../scheduling/dynamic-batch-scheduler.ts'
import { dynamicBatchSettings } from '../../scheduling/dynamic-batch-settings.ts'
import type { RateLimiter } from '../../scheduling/rate-limiter.ts'
import { SequenceScheduler } from '../../scheduling/sequence-scheduler.ts'
import { sequenceSettings } from '../../scheduling/sequence-settings.ts'
import { executedSignature } from '../../scheduling/sequence-signature.ts'
import type { StartHold } from '../../scheduling/start-hold.ts'
import { InstanceSet } from './instance-set.ts'
import type { CachedModel, ResponseCache } from '../../model/response-cache.ts'
import { ResponseCacheScheduler } from '../../scheduling/response-cache-scheduler.ts'
import type { LoadedParts } from './served-version.ts'
import { SingleFlightScheduler } from '../../scheduling/single-flight-scheduler.ts'
import { requireGpuMemory } from './gpu-load-limit.ts'
import type { GpuMeter } from './gpu-meter.ts'
import { devicesOf, keepPlace, type GpuPlacement } from './gpu-placement.ts'
import { LoadSteps } from './load-steps.ts'
import { warmUp } from './warm-up.ts'

export type LoadDependencies = {
  /** Null or absent: `--cache-config` was not given. */
  readonly responseCache?: ResponseCache | null
  /** Null or absent: `--rate-limit=off`. */
  readonly rateLimiter?: RateLimiter | null
  /** Absent: Instances run on all cores. */
  readonly coresOf?: CoresOf | undefined
  /** Absent: nobody measures what models take of GPUs. */
  readonly gpuMeter?: GpuMeter
  /** Absent: models are on all GPUs of their groups. */
  readonly gpuPlacement?: GpuPlacement
  readonly clock: Clock
  readonly log: Log
  /** The Backend of that name, made or found on first use; null when there is none. */
  findBackend(
    name: string,
    model?: { readonly config: ModelConfig; readonly files: ModelFiles },
  ): Promise<Backend | null>
}

export type LoadSettings = {
  readonly isAutoCompleteDisabled: boolean
  readonly gpuCount: number
  readonly minComputeCapability?: number
  /** `--model-load-gpu-limit`, by GPU. */
  readonly gpuLoadLimits?: ReadonlyMap<number, number>
  /** For a model that sets no `max_queue_size`. 'auto': see `queueBound`. */
  readonly defaultMaxQueueSize: 'auto' | 'unlimited' | number
  /** `--queue-delay-target`, for models without `queue_delay_target_ms`; 0 or absent: no overload is looked for. */
  readonly queueDelayTargetMs?: number
  /** `--triton-defaults`: leave out steps that an answer does not need as Triton does, with the same refusals. */
  readonly runsEnsemblesLikeTriton?: boolean
  /** `--model-max-execution-secs`, for models without `max_execution_ms`; 0 or absent: no limit. */
  readonly maxExecutionSecs?: number
  /** Null or absent: a model runs its first request when it comes. */
  readonly startHold?: StartHold | null
}

/** `draft` is the polled configuration; it is not changed. Frees what it made when a later step fails. */
export async function loadVersion(
  dependencies: LoadDependencies,
  settings: LoadSettings,
  draft: ModelConfig,
  files: ModelFiles,
  onReadinessChange: () => void,
): Promise<LoadedParts> {
  const steps = new LoadSteps(dependencies, draft.name, files.version)
  const backend = await requireBackend(dependencies, draft, files)
  steps.done('backend found', { backend: draft.backend })
  const completed = await completeVersion(dependencies, backend, settings, draft, files)
  const { inputs, outputs, maxBatchSize } = completed.signature
  steps.done('configuration completed and checked', {
    inputs: inputs.length,
    outputs: outputs.length,
    max_batch_size: maxBatchSize,
  })
  try {
    return await openVersion(dependencies, settings, { ...completed, backend, files, steps, onReadinessChange })
  } finally {
    dependencies.gpuPlacement?.ended(completed.config)
  }
}

type CompletedVersion = {
  readonly backend: Backend
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly files: ModelFiles
  readonly steps: LoadSteps
  readonly onReadinessChange: () => void
}

async function openVersion(
  dependencies: LoadDependencies,
  settings: LoadSettings,
  { backend, config, signature, files, steps, onReadinessChange }: CompletedVersion,
): Promise<LoadedParts> {
  const { name } = config
  const initialStates = await readInitialStates(config, files.modelDirectory)
  const executed = config.sequenceBatching === null ? signature : executedSignature(config)
  const { version } = files
  const { log } = dependencies
  const limited = limitExecution(config, settings.maxExecutionSecs ?? 0)
  await requireGpuMemory(config, settings.gpuLoadLimits ?? new Map())
  const meter = dependencies.gpuMeter ?? null
  const open = async (): Promise<OpenedVersion> => {
    const loaded = await backend.load({ name, version, config: limited, signature: executed, files, log })
    steps.done('model opened by its backend')
    const warmUpModel = { config, signature: executed, modelDirectory: files.modelDirectory, initialStates }
    return { loaded, instances: await openInstances(dependencies, config, loaded, warmUpModel, onReadinessChange) }
  }
  const { value, bytes } =
    meter === null ? { value: await open(), bytes: null } : await meter.measure(devicesOf(config), open)
  const { loaded, instances } = value
  steps.done('instances initialised and warmed up', { instances: instances.count })
  try {
    const inner = createScheduler(dependencies, settings, config, signature, instances.scheduled, initialStates)
    const scheduler = await sharingScheduler(dependencies, { config, files }, inner)
    instances.start(scheduler)
    return { config, signature, loaded, instances, scheduler, ...(bytes === null ? {} : { gpuBytes: bytes }) }
  } catch (reason) {
    await instances.close().catch(() => undefined)
    await loaded.close()
    throw reason
  }
}

type OpenedVersion = { readonly loaded: LoadedModel; readonly instances: InstanceSet }

/** Closes the model when it has no Instances. */
async function openInstances(
  dependencies: LoadDependencies,
  config: ModelConfig,
  loaded: LoadedModel,
  warmUpModel: Parameters<typeof warmUp>[1],
  onReadinessChange: () => void,
): Promise<InstanceSet> {
  try {
    return await InstanceSet.create(
      {
        clock: dependencies.clock,
        log: dependencies.log.from('instance-set.ts'),
        loaded,
        rateLimiter: dependencies.rateLimiter ?? null,
        coresOf: dependencies.coresOf,
        onReadinessChange,
        warmUp: (some) => warmUp(dependencies.log, warmUpModel, some),
      },
      config.instanceGroup,
    )
  } catch (reason) {
    await loaded.close()
    throw reason
  }
}

/** The configuration that clients see stays as it was written. */
function limitExecution(config: ModelConfig, maxExecutionSecs: number): ModelConfig {
  if (maxExecutionSecs === 0 || readParameter(config, 'max_execution_ms') !== null) return config
  const limit = { stringValue: String(maxExecutionSecs * 1000) }
  return { ...config, parameters: new Map([...config.parameters, ['max_execution_ms', limit]]) }
}

export function filesOf({ repositoryPath, modelDirectory }: FoundModel, version: string): ModelFiles {
  return { repositoryPath, modelDirectory, versionDirectory: `${modelDirectory}/${version}`, version }
}

const hintFor = (model: string, advice: string): string => `hint for model '${model}': ${advice}`

async function requireBackend(
  dependencies: LoadDependencies,
  config: ModelConfig,
  files: ModelFiles,
): Promise<Backend> {
  const { backend: name, name: model } = config
  const backend = await dependencies.findBackend(name, { config, files })
  if (backend !== null) return backend
  // The text of the error is Triton's; the advice is for who reads the log.
  dependencies.log.warning(hintFor(model, backendAdvice(name)))
  throw new ServerError(
    'INVALID_ARG',
    `unable to find backend library for backend '${name}', try specifying runtime on the model configuration.`,
  )
}

/** Without a Backend, the configuration is not completed from the model's files. `gpuPlacement` waits for the end of the load. */
async function completeVersion(
  { gpuPlacement, log }: LoadDependencies,
  backend: Backend | null,
  settings: LoadSettings,
  draft: ModelConfig,
  files: ModelFiles,
): Promise<{ config: ModelConfig; signature: ModelSignature }> {
  let config = structuredClone(draft)
  if (backend !== null && !settings.isAutoCompleteDisabled) config = await backend.complete(config, files)
  normaliseModelConfig(config)
  const usesGpus = settings.gpuCount === 0 ? false : await backend?.usesGpus?.()
  normaliseInstanceGroups(config, { gpuCount: settings.gpuCount, usesGpus })
  // The text of the error is Triton's; the advice is for who reads the log.
  validateLoadedConfig(config, gpuRules(settings), (fix) => log.warning(hintFor(config.name, fix)))
  const classNames = backend?.classNames?.(config, files) ?? []
  const labels = new Map([...classNames, ...(await readLabels(config, files.modelDirectory))])
  const signature = new ModelSignature(config, labels)
  if (settings.gpuCount > 1) await gpuPlacement?.place(config)
  return { config, signature }
}

const gpuRules = ({
  gpuCount,
  minComputeCapability,
}: LoadSettings): { gpuCount: number; leastCapability: number | undefined } => ({
  gpuCount,
  leastCapability: minComputeCapability,
})

/** Configuration and signature of a version that is not loaded. A draft with inputs and outputs needs no Backend. */
export async function describeVersion(
  dependencies: LoadDependencies,
  settings: LoadSettings,
  draft: ModelConfig,
  files: ModelFiles,
): Promise<{ config: ModelConfig; signature: ModelSignature }> {
  const isComplete = draft.ensembleScheduling !== null || (draft.input.length > 0 && draft.output.length > 0)
  const backend = isComplete ? null : await requireBackend(dependencies, draft, files)
  const completed = await completeVersion(dependencies, backend, settings, draft, files)
  dependencies.gpuPlacement?.ended(completed.config)
  return completed
}

/** `config` with the instance groups and the version policy of `draft`. */
export function rescaledConfig(config: ModelConfig, draft: ModelConfig, settings: LoadSettings): ModelConfig {
  const { instanceGroup, versionPolicy } = structuredClone(draft)
  const rescaled = { ...config, instanceGroup, versionPolicy }
  const usesGpus = config.instanceGroup.some(({ kind }) => kind === 'KIND_GPU') || undefined
  normaliseInstanceGroups(rescaled, { gpuCount: settings.gpuCount, usesGpus })
  validateLoadedConfig(rescaled, gpuRules(settings))
  keepPlace(config, rescaled)
  // Instances that follow load stay as many as they are.
  const [now] = activeGroups(config)
  return scaleLimitsOf(rescaled) === null || now === undefined ? rescaled : withInstanceCount(rescaled, now.count)
}

/** Puts in front of `scheduler` what the configuration asks for: the response cache, single flight, both or neither. */
export async function sharingScheduler(
  { clock, log, responseCache }: Pick<LoadDependencies, 'clock' | 'log' | 'responseCache'>,
  model: CachedModel,
  scheduler: Scheduler,
): Promise<Scheduler> {
  const { config } = model
  const shared =
    readParameter(config, 'single_flight') === true ? new SingleFlightScheduler({ clock }, scheduler) : scheduler
  if (responseCache === undefined || responseCache === null || config.responseCache?.enable !== true) return shared
  const prefix = await responseCache.prefixFor(model)
  return new ResponseCacheScheduler({ clock, log, cache: responseCache }, shared, prefix)
}

function createScheduler(
  { clock, log }: Pick<LoadDependencies, 'clock' | 'log'>,
  settings: LoadSettings,
  config: ModelConfig,
  signature: ModelSignature,
  instances: readonly Instance[],
  initialStates: ReadonlyMap<string, Uint8Array>,
): Scheduler {
  const { startHold = null } = settings
  const maxQueueSize = queueBound(settings, config, instances.length)
  const afterThisTurn = (fire: () => void): void => void setImmediate(fire)
  if (config.sequenceBatching !== null) {
    const sequences = sequenceSettings(config, config.sequenceBatching, signature, {
      maxQueueSize,
      initialStates,
      startHold,
    })
    return new SequenceScheduler({ clock, afterThisTurn, log }, instances, sequences)
  }
  const overload = overloadSettings(config, settings.queueDelayTargetMs ?? 0)
  // Triton's refusals name the id of the request, so the request is read first.
  const refusesUnread = (settings.queueDelayTargetMs ?? 0) > 0
  if (config.dynamicBatching === null)
    return new DirectScheduler({ clock }, instances, { modelName: config.name, maxQueueSize, overload, refusesUnread })
  const options = { defaultMaxQueueSize: maxQueueSize, overload, refusesUnread, startHold }
  const batching = dynamicBatchSettings(config, config.dynamicBatching, signature, options)
  return new DynamicBatchScheduler({ clock, afterThisTurn }, instances, batching)
}

/** Where an overload is looked for, it ends far below this. So a client may send many requests at once and wait for them. */
const mostWaitingRequests = 10_000

/** How many requests of a model may wait that sets no `max_queue_size`. */
export function queueBound(settings: LoadSettings, config: ModelConfig, instanceCount: number): number {
  switch (settings.defaultMaxQueueSize) {
    case 'unlimited':
      return Infinity
    case 'auto': {
      if (overloadSettings(config, settings.queueDelayTargetMs ?? 0) !== null) return mostWaitingRequests
      const most = Math.max(instanceCount, scaleLimitsOf(config)?.max ?? 0)
      return Math.max(100, 8 * Math.max(1, config.maxBatchSize) * most)
    }
    default:
      return settings.defaultMaxQueueSize
  }
}
