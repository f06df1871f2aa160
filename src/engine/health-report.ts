// What is not ready and why, for the operator who is called because of it.

import type { EngineState, HealthReport, InstanceHealth, LoadUnderWay, VersionHealth } from '../model/health.ts'
import type { LiveCheck } from './live-check.ts'
import type { ServedModel } from './serving/served-model.ts'
import type { ServedVersion } from './serving/served-version.ts'

type NotReadyReason = 'server_starting' | 'server_exiting' | 'model_not_ready'

type ReportSources = Omit<HealthReport, 'reasons' | 'models'> & {
  readonly models: Iterable<ServedModel>
  readonly liveCheck: LiveCheck | null
  /** Left out: who asks may know of every model. */
  readonly isVisible?: ((model: string) => boolean) | undefined
}

const always = (): boolean => true

/** Every reason there may be, and whether it holds. Without strict readiness a server that serves is ready. */
export function notReadyReasons(
  state: EngineState,
  isReady: boolean,
): readonly (readonly [reason: NotReadyReason, holds: boolean])[] {
  const isServing = state === 'READY'
  return [
    ['server_starting', state === 'STARTING'],
    ['server_exiting', state !== 'STARTING' && !isServing],
    ['model_not_ready', isServing && !isReady],
  ]
}

export function healthReport(sources: ReportSources): HealthReport {
  const { state, isLive, isReady, isStrict, isVisible = always } = sources
  const all = [...sources.models].flatMap((model) => versionsOf(model, sources.liveCheck))
  const models = all.filter(({ model }) => isVisible(model))
  const reasons: string[] = []
  if (state === 'STARTING') reasons.push(startingText(sources.loading, isVisible))
  else if (state !== 'READY') reasons.push('the server is exiting')
  if (all.some((one) => !isVisible(one.model) && !one.isReady && !isAway(one))) reasons.push('a model that you may not see is not ready') // prettier-ignore
  for (const one of models) {
    if (!one.isReady && !isAway(one)) reasons.push(`model '${one.model}'${versionText(one)}: ${one.reason}`)
    for (const { name, isHung } of one.instances) {
      if (isHung) reasons.push(`instance '${name}' of model '${one.model}' shows no sign of life`)
    }
  }
  return {
    state,
    isLive,
    isReady,
    isStrict,
    reasons,
    models,
    loading: sources.loading.filter(({ model }) => isVisible(model)),
  }
}

/** A sentence names so many models and counts the others. */
const namedModels = 5

/** Models that may not be seen are counted. */
export function startingText(loading: readonly LoadUnderWay[], isVisible: (model: string) => boolean = always): string {
  if (loading.length === 0) return 'the server is starting'
  const seen = loading.filter(({ model }) => isVisible(model)).slice(0, namedModels)
  const named = seen.map(({ model, seconds }) => `'${model}' for ${seconds} s`)
  const others = loading.length > seen.length ? [`${loading.length - seen.length} more`] : []
  return `the server is starting, it loads ${[...named, ...others].join(', ')}`
}

/** A version that sleeps or that somebody has unloaded keeps nothing from being ready. */
const isAway = ({ state, reason }: VersionHealth): boolean =>
  state === 'SLEEPING' || (state === 'UNAVAILABLE' && reason === 'unloaded')

const versionText = ({ version }: VersionHealth): string => (version === '' ? '' : ` version ${version}`)

function versionsOf(model: ServedModel, liveCheck: LiveCheck | null): VersionHealth[] {
  const known = [...model.versions.values()].map((version) => versionHealth(version, liveCheck))
  if (known.length > 0) return known
  const isAsleep = model.sleeping !== null
  const [entry] = model.index()
  return [
    {
      model: model.name,
      version: '',
      state: isAsleep ? 'SLEEPING' : 'UNAVAILABLE',
      reason: entry?.reason ?? '',
      isReady: isAsleep,
      inFlightCount: 0,
      pendingCount: 0,
      instances: [],
    },
  ]
}

function versionHealth(served: ServedVersion, liveCheck: LiveCheck | null): VersionHealth {
  const hung = new Set(liveCheck?.hung.map(({ instance }) => instance))
  const instances = [...served.instances].map((instance): InstanceHealth => ({
    name: instance.name,
    isReady: instance.isReady && instance.isLost !== true,
    isHung: hung.has(instance),
    restartCount: instance.restartCount ?? 0,
    lastError: instance.lastError ?? '',
  }))
  const { name: model, version, state, isReady, inFlightCount, pendingCount } = served
  const reason = isReady ? '' : served.reason !== '' ? served.reason : notReadyText(served, instances)
  return { model, version, state, reason, isReady, inFlightCount, pendingCount, instances }
}

function notReadyText({ state }: ServedVersion, instances: readonly InstanceHealth[]): string {
  if (state !== 'READY') return `it is ${state}`
  if (instances.length === 0) return 'a model that it calls is not ready'
  const error = instances.find(({ lastError }) => lastError !== '')?.lastError
  return `none of its ${instances.length} instances is ready${error === undefined ? '' : ` (${error})`}`
}
