import { assert } from '../../base/assert.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { Chooser, VersionChoice } from '../../model/choice.ts'
import { modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { worded } from '../../model/worded-error.ts'
import type { UploadedModel } from '../../repository/uploaded-models.ts'
import { compareVersions } from '../../repository/version-policy.ts'
import type { ModelResidence } from '../../telemetry/residency-families.ts'
import type { IndexEntry } from './index-entry.ts'
import type { ServedVersion } from './served-version.ts'
import type { SleepingModel, SleepingVersion } from './sleeping-model.ts'
import { canonicalVersion } from './version-text.ts'

/** What a model is loaded from, or will be when it wakes. */
export type ServedFrom = {
  /** Of the model's files: a load of the same files has nothing to do. */
  readonly fingerprint: string
  /** The configuration that came with a load request; null for the repository's. */
  readonly override: ModelConfig | null
  /** The folder of files that came with a load request; null for the repository's. */
  readonly upload: UploadedModel | null
}

/**
 * ABSENT: the model takes no requests. It was not loaded yet, could not be loaded, or was unloaded.
 * SLEEPING: the model is not in memory, and the first request loads it. It is SLEEPING until that load is done.
 * SERVING: the model's versions take requests. A reload goes from SERVING to SERVING in one step.
 * Every move is allowed. At exit the state stays: clients are told that the server exits, not that the model is gone.
 */
type ServedModelState =
  | { readonly kind: 'ABSENT' }
  | { readonly kind: 'SLEEPING'; readonly sleeping: SleepingModel; readonly from: ServedFrom }
  | {
      readonly kind: 'SERVING'
      /** What a request without a version gets: the standard version where it serves, else the highest one. */
      readonly latest: ServedVersion
      /** Lowest first. */
      readonly ready: readonly ServedVersion[]
      readonly readyVersions: readonly string[]
      readonly from: ServedFrom
    }

const absent: ServedModelState = { kind: 'ABSENT' }
const nothing: ServedFrom = { fingerprint: '', override: null, upload: null }

/** A model the server has tried to load: its versions, or why there are none. */
export class ServedModel implements VersionChoice {
  readonly key: ModelKey
  readonly name: string
  /** The repository it is from; undefined without namespaces. */
  readonly namespace: string | undefined
  /** As logs and errors show it. */
  readonly label: string
  #state: ServedModelState = absent
  /** Every version that was ever tried: the index lists those that are gone as well. */
  readonly #versions = new Map<string, ServedVersion>()
  readonly #retiring = new Set<ServedVersion>()
  /** Why the last load failed before any version was tried; '' when it did not. The model may serve all the same. */
  failure = ''
  /** Whether it failed in the repository: its configuration cannot be read, or what it calls is not there. To Triton it is no model then. */
  isUnread = false
  /** The memory of its versions; 0 while the model is not in memory. */
  memoryBytes = 0
  /** The same by GPU. */
  gpuBytes: ReadonlyMap<number, number> = new Map()
  /** The number of the version that requests without one get; '': the highest one. Set by the ModelDirectory alone. */
  #standard = ''
  /** Chooses the version of each request; null: `find` does. Set by the ModelDirectory alone. */
  chooser: Chooser | null = null

  constructor(key: ModelKey) {
    const { namespace, name } = splitModelKey(key)
    this.key = key
    this.name = name
    this.namespace = namespace
    this.label = modelLabel(key)
  }

  get state(): ServedModelState {
    return this.#state
  }

  get versions(): ReadonlyMap<string, ServedVersion> {
    return this.#versions
  }

  /** Versions that were replaced and still have sequences to end. */
  get retiring(): ReadonlySet<ServedVersion> {
    return this.#retiring
  }

  /** Null unless it serves. */
  get latest(): ServedVersion | null {
    return this.#state.kind === 'SERVING' ? this.#state.latest : null
  }

  /**
   * The version that the sequence began on, where that is not `chosen`; null: it began on `chosen`, or nowhere. `asked` is the version that the
   * request names. Where rollouts set the standard version, the version of before may serve on beside it.
   */
  otherWithSequence(id: bigint | string, chosen: ModelVersion, asked: string): ServedVersion | null {
    const old = this.#retiringWithSequence(id)
    if (old !== null || asked !== '' || this.#standard === '' || chosen.holdsSequence(id)) return old
    return this.#readyWithSequence(id)
  }

  versionWithSequence(id: bigint | string): ServedVersion | null {
    return this.#retiringWithSequence(id) ?? this.#readyWithSequence(id)
  }

  #retiringWithSequence(id: bigint | string): ServedVersion | null {
    for (const old of this.#retiring) if (old.holdsSequence(id)) return old
    return null
  }

  #readyWithSequence(id: bigint | string): ServedVersion | null {
    return this.ready.find((version) => version.holdsSequence(id)) ?? null
  }

  /** The versions that serve, lowest first. */
  get ready(): readonly ServedVersion[] {
    return this.#state.kind === 'SERVING' ? this.#state.ready : none
  }

  get readyVersions(): readonly string[] {
    return this.#state.kind === 'SERVING' ? this.#state.readyVersions : none
  }

  /** Null unless it sleeps. */
  get sleeping(): SleepingModel | null {
    return this.#state.kind === 'SLEEPING' ? this.#state.sleeping : null
  }

  get from(): ServedFrom {
    return this.#state.kind === 'ABSENT' ? nothing : this.#state.from
  }

  get identity(): { readonly name: string; readonly namespace?: string } {
    const { name, namespace } = this
    return namespace === undefined ? { name } : { name, namespace }
  }

  /** The version a request asks for; '' is the highest one that serves. Throws with Triton's texts. HOT. */
  find(version: string): ModelVersion {
    const { label } = this
    const state = this.#state
    if (version === '') {
      if (state.kind === 'SERVING') return state.latest
      if (state.kind === 'SLEEPING') return state.sleeping.versions.get(this.#standard) ?? state.sleeping.latest
      throw unknownModel('NOT_FOUND', `'${label}' ${this.isNoModel ? 'is not found' : 'has no available versions'}`)
    }
    if (this.isNoModel) {
      canonicalVersion(version)
      throw unknownModel('NOT_FOUND', `'${label}' is not found`)
    }
    const found = this.#versions.get(version) ?? this.#versions.get(canonicalVersion(version))
    if (found?.state === 'READY') return found
    const asleep = this.sleeping?.versions.get(canonicalVersion(version))
    if (asleep !== undefined) return asleep
    if (found === undefined) {
      const offered = this.offered.map((known) => known.version)
      throw worded('unknownVersion', { name: label, version: canonicalVersion(version), offered })
    }
    throw unknownModel('UNAVAILABLE', `'${label}' version ${found.version} is not at ready state`)
  }

  /** To Triton a model whose load got as far as its versions is one, also when it found none. */
  get isNoModel(): boolean {
    if (this.#versions.size > 0 || this.#state.kind === 'SLEEPING') return false
    return this.failure === '' || this.isUnread
  }

  /** The versions that serve, or would with the first request, lowest first. */
  get offered(): readonly (ServedVersion | SleepingVersion)[] {
    const { sleeping } = this
    return sleeping === null ? this.ready : [...sleeping.versions.values()]
  }

  /** '' is the version that requests without one get. */
  isVersionReady(version: string): boolean {
    const { sleeping } = this
    if (sleeping === null) {
      return (version === '' ? this.latest : this.#versions.get(canonicalVersion(version)))?.isReady ?? false
    }
    return sleeping.failure === null && (version === '' || sleeping.versions.has(canonicalVersion(version)))
  }

  /** Readiness of the server needs this of every model. A model that sleeps counts as ready. */
  get isReady(): boolean {
    if (this.#state.kind === 'SLEEPING') return true
    if (this.#versions.size === 0) return false
    // A version on trial beside the standard version does not make the server unready.
    if (this.#standard !== '' && this.latest?.version === this.#standard) return this.latest.isReady
    for (const version of this.#versions.values()) {
      if (!version.isReady && !(version.state === 'UNAVAILABLE' && version.reason === 'unloaded')) return false
    }
    return true
  }

  /** Whether nothing of it serves, sleeps, loads or ends. */
  get isOver(): boolean {
    const isAbsent = this.#state.kind === 'ABSENT' && this.#retiring.size === 0
    return isAbsent && [...this.#versions.values()].every(({ state }) => state === 'UNAVAILABLE')
  }

  /** Whether requests are in flight or sequences have begun and not ended. */
  get isInUse(): boolean {
    for (const version of this.#versions.values()) if (version.state === 'READY' && version.isInUse) return true
    return false
  }

  /** When the last request ended, or the model was loaded. */
  get lastUsedNs(): number {
    return this.ready.reduce((latest, version) => Math.max(latest, version.lastUsedNs), 0)
  }

  /** Versions of a first load are in the index while they load. */
  show(loading: readonly ServedVersion[]): void {
    for (const version of loading) this.#versions.set(version.version, version)
  }

  /** From now on these versions take the requests, lowest first. Those that served before are the caller's to end. */
  serve(ready: readonly ServedVersion[], from: ServedFrom): void {
    this.show(ready)
    const latest = ready.find(({ version }) => version === this.#standard) ?? ready.at(-1)
    assert(latest !== undefined, `model '${this.label}' serves at least one version`)
    this.#move({ kind: 'SERVING', latest, ready, readyVersions: ready.map(({ version }) => version), from })
  }

  /** From now on requests without a version get this one, as long as it serves; '': the highest one. One assignment. */
  setStandard(version: string): void {
    this.#standard = version
    if (this.#state.kind === 'SERVING') this.serve(this.#state.ready, this.#state.from)
  }

  /** A model that sleeps keeps the configuration that came with the request for it. */
  sleep(sleeping: SleepingModel, fingerprint: string): void {
    this.#move({ kind: 'SLEEPING', sleeping, from: { ...this.from, fingerprint } })
  }

  /** No request is taken any more. The versions that served are the caller's to end. */
  leave(): void {
    this.#move(absent)
  }

  #move(next: ServedModelState): void {
    if (next.kind === 'SLEEPING') {
      assert(next.sleeping.versions.size > 0, `model '${this.label}' has a version to be woken for`)
      assert(next.from.upload === null && !this.isInUse, `nothing of model '${this.label}' is lost while it sleeps`)
    }
    this.#state = next
  }

  /** A version that was replaced takes no new sequences, and is in the index only where no other has its number. */
  beginRetiring(old: ServedVersion): void {
    this.#retiring.add(old)
    if (this.#versions.get(old.version) === old) this.#versions.delete(old.version)
  }

  endRetiring(old: ServedVersion): void {
    this.#retiring.delete(old)
    if (!this.#versions.has(old.version)) this.#versions.set(old.version, old)
  }

  /** Every version that was ever tried, lowest first. */
  versionEntries(): IndexEntry[] {
    const entries: IndexEntry[] = []
    const { identity, sleeping } = this
    for (const { version, state, reason } of this.#versions.values()) {
      const isAsleep = state === 'UNAVAILABLE' && sleeping?.versions.has(version) === true
      if (!isAsleep) entries.push({ ...identity, version, state, reason })
    }
    for (const { version } of this.#retiring) {
      if (!this.#versions.has(version)) entries.push({ ...identity, version, state: 'UNLOADING', reason: '' })
    }
    for (const version of sleeping?.versions.keys() ?? []) {
      if (entries.some((entry) => entry.version === version)) continue
      const reason = sleeping?.failure?.message.trimEnd() ?? sleeping?.settings.reason ?? ''
      entries.push({ ...identity, version, state: 'UNAVAILABLE', reason })
    }
    return entries.sort((a, b) => compareVersions(a.version, b.version))
  }

  /** The versions, or one entry without a version that says why there are none. */
  index(): IndexEntry[] {
    if (this.#versions.size > 0 || this.#state.kind === 'SLEEPING') return this.versionEntries()
    return [{ ...this.identity, version: '', state: 'UNAVAILABLE', reason: this.failure }]
  }

  /** Which of its versions are in memory, for metrics. */
  residence(): ModelResidence {
    const { name, namespace, memoryBytes } = this
    const states = new Map<string, string>(this.versionEntries().map(({ version, state }) => [version, state]))
    for (const version of this.sleeping?.versions.keys() ?? []) states.set(version, 'SLEEPING')
    return { model: name, namespace, states, memoryBytes }
  }
}

const none: readonly never[] = []

const unknownModel = (code: 'NOT_FOUND' | 'UNAVAILABLE', text: string): ServerError =>
  ServerError.withoutStack(code, `Request for unknown model: ${text}`)
