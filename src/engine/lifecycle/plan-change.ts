// What a load would change, as a value: decided here without touching anything, and carried out by ModelLifecycle.

import { messageOf } from '../../base/server-error.ts'
import type { ModelVersionState } from '../../model/model-version.ts'
import type { FoundModel, PolledModel } from '../../repository/model-repository.ts'
import { selectVersions } from '../../repository/version-policy.ts'
import { versionOrigin } from './version-origin.ts'

/** A version that was tried before. */
export type KnownVersion = {
  readonly version: string
  readonly state: ModelVersionState
  /** What it was loaded from; '' when that is not known. */
  readonly origin: string
}

/** How a model stands before the change. */
export type CurrentModel<V extends KnownVersion> = {
  readonly state: 'ABSENT' | 'SLEEPING' | 'SERVING'
  /** Of the files that it serves from, or was read from before it slept; '' while it is ABSENT. */
  readonly fingerprint: string
  readonly versions: Iterable<V>
}

export type ChangeRules = {
  /** Even when its files have not changed. */
  readonly isForced: boolean
  /** A lazy model that does not serve is only made known, and so is one for which there is no room. */
  readonly mayStayAsleep: boolean
  readonly isLazy: boolean
  /** An ensemble is made anew each time: it follows the models that it calls. */
  readonly isEnsemble: boolean
  /** The versions to serve, lowest first; null: those of the version policy. */
  readonly selected: readonly string[] | null
  /** Whether the versions fit into the memory that is free. */
  hasRoom(model: FoundModel, versions: readonly string[]): boolean
}

/** The first request for the model loads it. */
export type SleepPlan = { readonly kind: 'SLEEP'; readonly polled: FoundModel; readonly versions: readonly string[] }

/** The versions of `keep` and `load` serve from now on. */
export type ServePlan<V extends KnownVersion> = {
  readonly kind: 'SERVE'
  readonly polled: FoundModel
  /** All versions that are to serve, lowest first; none: the version policy chooses none. */
  readonly chosen: readonly string[]
  /** They serve on as they are, but for the number of their instances. */
  readonly keep: readonly V[]
  readonly load: readonly string[]
  /** They end when the others have taken over. */
  readonly retire: readonly V[]
}

export type LoadPlan<V extends KnownVersion> =
  | ServePlan<V>
  /** The repository's entry cannot be read. */
  | { readonly kind: 'UNREADABLE'; readonly reason: string }

type ChangePlan<V extends KnownVersion> =
  | LoadPlan<V>
  | SleepPlan
  /** It serves from these files already. */
  | { readonly kind: 'GO_ON_SERVING' }
  /** It sleeps, and these are the files that it was read from. */
  | { readonly kind: 'GO_ON_SLEEPING' }

/** What a load of the model changes, or why there is nothing to do. Pure. */
export function planChange<V extends KnownVersion>(
  current: CurrentModel<V>,
  polled: PolledModel,
  rules: ChangeRules,
): ChangePlan<V> {
  if (polled.error !== null) return planLoad(current.versions, polled, rules)
  const { state, fingerprint } = current
  const isSame = polled.fingerprint === fingerprint
  if (state === 'SERVING' && isSame && !rules.isForced) return { kind: 'GO_ON_SERVING' }
  const chosen = rules.selected ?? selectVersions(polled.config.versionPolicy, polled.versions)
  const maySleep = rules.mayStayAsleep && state !== 'SERVING' && chosen.length > 0
  if (maySleep && (rules.isLazy || !rules.hasRoom(polled, chosen))) {
    return state === 'SLEEPING' && isSame ? { kind: 'GO_ON_SLEEPING' } : { kind: 'SLEEP', polled, versions: chosen }
  }
  return planLoad(current.versions, polled, rules)
}

/** The same for a load that has something to do. Pure. */
export function planLoad<V extends KnownVersion>(
  versions: Iterable<V>,
  polled: PolledModel,
  { isEnsemble, selected }: Pick<ChangeRules, 'isEnsemble' | 'selected'>,
): LoadPlan<V> {
  if (polled.error !== null) {
    const { message, cause } = polled.error
    return { kind: 'UNREADABLE', reason: cause === undefined ? message : `${message}: ${messageOf(cause)}` }
  }
  const chosen = selected ?? selectVersions(polled.config.versionPolicy, polled.versions)
  const serving = [...versions].filter((version) => version.state === 'READY')
  const keep = isEnsemble ? [] : serving.filter((version) => isUnchanged(version, polled, chosen))
  const load = chosen.filter((version) => !keep.some((kept) => kept.version === version))
  const retire = serving.filter((version) => !keep.includes(version))
  return { kind: 'SERVE', polled, chosen, keep, load, retire }
}

/** Whether it differs from what is wanted in the number of its instances at most. */
function isUnchanged({ version, origin }: KnownVersion, polled: FoundModel, chosen: readonly string[]): boolean {
  return chosen.includes(version) && origin !== '' && origin === versionOrigin(polled, version)
}
