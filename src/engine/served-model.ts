import type { UploadedModel } from '../repository/uploaded-models.ts'
import type { IndexEntry } from './engine.ts'
import type { ServedVersion } from './served-version.ts'

/** A model the server has tried to load: its versions, or why there are none. */
export class ServedModel {
  readonly name: string
  readonly versions = new Map<string, ServedVersion>()
  /** Why the repository's entry could not even be read; '' when it could. */
  pollFailure = ''
  /** Of the files that serve now: a load of the same ones has nothing to do. */
  fingerprint = ''
  /** The folder of files that came with a load request; null for a model that serves from its repository. */
  upload: UploadedModel | null = null
  /** The highest version that serves; what a request without a version gets. */
  latest: ServedVersion | null = null
  /** The versions that serve, lowest first. */
  ready: readonly ServedVersion[] = []
  readyVersions: readonly string[] = []

  constructor(name: string) {
    this.name = name
  }

  get isReady(): boolean {
    if (this.versions.size === 0) return false
    for (const version of this.versions.values()) {
      if (!version.isReady && !(version.state === 'UNAVAILABLE' && version.reason === 'unloaded')) return false
    }
    return true
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
    const entries = [...this.versions.values()].map(({ name, version, state, reason }) => ({
      name,
      version,
      state,
      reason,
    }))
    return entries.sort((a, b) => (BigInt(a.version) < BigInt(b.version) ? -1 : 1))
  }

  /** The versions, or one entry without a version that says why there are none. */
  index(): IndexEntry[] {
    if (this.versions.size > 0) return this.versionEntries()
    return [{ name: this.name, version: '', state: 'UNAVAILABLE', reason: this.pollFailure }]
  }

  async dropUpload(): Promise<void> {
    const { upload } = this
    this.upload = null
    await upload?.remove()
  }
}
