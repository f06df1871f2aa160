import type { ModelConfig } from '../../config/model-config.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Chooser, VersionChoice } from '../../model/choice.ts'
import { modelLabel, splitModelKey, type ModelKey } from '../../model/model-key.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { UploadedModel } from '../../repository/uploaded-models.ts'
import type { IndexEntry } from './index-entry.ts'
import type { LoadOptions } from './load-options.ts'
import type { SleepingModel } from './sleeping-model.ts'
import { canonicalVersion } from './version-text.ts'
import type { ServedVersion } from './served-version.ts'

/** A model the server has tried to load: its versions, or why there are none. */
export class ServedModel implements VersionChoice {
  readonly key: ModelKey
  readonly name: string
  /** The repository it is from; undefined without namespaces. */
  readonly namespace: string | undefined
  /** As logs and errors show it. */
  readonly label: string
  readonly versions = new Map<string, ServedVersion>()
  /** Why the repository's entry could not even be read; '' when it could. */
  pollFailure = ''
  /** Of the files that serve now: a load of the same ones has nothing to do. */
  fingerprint = ''
  /** The folder of files that came with a load request; null for a model that serves from its repository. */
  upload: UploadedModel | null = null
  /** The configuration that came with a load request; null for the repository's. */
  override: ModelConfig | null = null
  /** Set while it is not in memory and is to be loaded on the first request. */
  sleeping: SleepingModel | null = null
  /** What its versions take; 0 while it is not in memory. */
  memoryBytes = 0
  /** Versions that were replaced and still have sequences to end. */
  readonly retiring = new Set<ServedVersion>()
  /** The highest version that serves; what a request without a version gets. */
  latest: ServedVersion | null = null
  /** The versions that serve, lowest first. */
  ready: readonly ServedVersion[] = []
  readyVersions: readonly string[] = []
  /** Chooses the version of each request; null: `find` does. Set by the ModelDirectory alone. */
  chooser: Chooser | null = null

  constructor(key: ModelKey) {
    const { namespace, name } = splitModelKey(key)
    this.key = key
    this.name = name
    this.namespace = namespace
    this.label = modelLabel(key)
  }

  get identity(): { readonly name: string; readonly namespace?: string } {
    const { name, namespace } = this
    return namespace === undefined ? { name } : { name, namespace }
  }

  /** The version a request asks for; '' is the highest one that serves. Throws with Triton's texts. HOT. */
  find(version: string): ModelVersion {
    const { label, sleeping } = this
    if (this.versions.size === 0 && sleeping === null) throw unknownModel('NOT_FOUND', `'${label}' is not found`)
    if (version === '') {
      if (this.latest !== null) return this.latest
      if (sleeping !== null) return sleeping.latest
      throw unknownModel('NOT_FOUND', `'${label}' has no available versions`)
    }
    const found = this.versions.get(version) ?? this.versions.get(canonicalVersion(version))
    if (found?.state !== 'READY' && sleeping !== null) {
      const asleep = sleeping.versions.get(canonicalVersion(version))
      if (asleep !== undefined) return asleep
    }
    if (found === undefined) {
      throw unknownModel('NOT_FOUND', `'${label}' version ${canonicalVersion(version)} is not found`)
    }
    if (found.state !== 'READY') {
      throw unknownModel('UNAVAILABLE', `'${label}' version ${found.version} is not at ready state`)
    }
    return found
  }

  /** A model that sleeps is as it should be. */
  get isReady(): boolean {
    if (this.sleeping !== null) return true
    if (this.versions.size === 0) return false
    for (const version of this.versions.values()) {
      if (!version.isReady && !(version.state === 'UNAVAILABLE' && version.reason === 'unloaded')) return false
    }
    return true
  }

  /** Whether requests are in flight or sequences have begun and not ended. */
  get isInUse(): boolean {
    for (const version of this.versions.values()) if (version.state === 'READY' && version.isInUse) return true
    return false
  }

  /** When the last request ended, or the model was loaded. */
  get lastUsedNs(): number {
    return this.ready.reduce((latest, version) => Math.max(latest, version.lastUsedNs), 0)
  }

  /** To be called after every change of a version's state. */
  refresh(): void {
    const ready = [...this.versions.values()]
      .filter((version) => version.state === 'READY')
      .sort((a, b) => (BigInt(a.version) < BigInt(b.version) ? -1 : 1))
    this.ready = ready
    this.latest = ready.at(-1) ?? null
    this.readyVersions = ready.map((version) => version.version)
  }

  /** Every version that was ever tried, lowest first. */
  versionEntries(): IndexEntry[] {
    const entries: IndexEntry[] = []
    const { identity, sleeping } = this
    for (const { version, state, reason } of this.versions.values()) {
      const isAsleep = state === 'UNAVAILABLE' && sleeping?.versions.has(version) === true
      if (!isAsleep) entries.push({ ...identity, version, state, reason })
    }
    for (const { version } of this.retiring) {
      if (!this.versions.has(version)) entries.push({ ...identity, version, state: 'UNLOADING', reason: '' })
    }
    for (const version of sleeping?.versions.keys() ?? []) {
      if (entries.some((entry) => entry.version === version)) continue
      const reason = sleeping?.failure?.message.trimEnd() ?? sleeping?.settings.reason ?? ''
      entries.push({ ...identity, version, state: 'UNAVAILABLE', reason })
    }
    return entries.sort((a, b) => (BigInt(a.version) < BigInt(b.version) ? -1 : 1))
  }

  /** The versions, or one entry without a version that says why there are none. */
  index(): IndexEntry[] {
    if (this.versions.size > 0 || this.sleeping !== null) return this.versionEntries()
    return [{ ...this.identity, version: '', state: 'UNAVAILABLE', reason: this.pollFailure }]
  }

  /** What serves now came from the repository or with a request. The folder of an earlier one is the caller's now. */
  servesFrom({ config = null, upload = null, origin }: LoadOptions): UploadedModel | null {
    const old = this.takeUpload()
    this.upload = upload
    // One that was woken is as it was.
    if (origin?.by !== 'demand') this.override = upload === null ? config : null
    return old
  }

  /** The folder is the caller's now. */
  takeUpload(): UploadedModel | null {
    const { upload } = this
    this.upload = null
    return upload
  }
}

const unknownModel = (code: 'NOT_FOUND' | 'UNAVAILABLE', text: string): ServerError =>
  ServerError.withoutStack(code, `Request for unknown model: ${text}`)
