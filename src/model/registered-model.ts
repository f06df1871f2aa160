// A model in the registry: the entries that people wrote about it, its files, and how it serves.

import type { ModelVersionState } from './model-version.ts'
import type { RegistryFields } from './registry-entry.ts'

export type VersionContent = {
  /** SHA-256 over `<SHA-256 of a file>  <its path>` lines, as sha256sum prints them, sorted by path. */
  readonly hash: string
  readonly fileCount: number
  readonly byteSize: number
}

export type RegisteredVersion = {
  readonly version: string
  /** '' for a version that was never loaded. */
  readonly state: ModelVersionState | ''
  readonly reason: string
  /** The files that the version was loaded from, or would be loaded from; null when they are not known (yet). */
  readonly content: VersionContent | null
  /** Since when the version serves; null when it does not serve. */
  readonly loadedMs: number | null
  /** The estimated memory of the version; 0 when it is not known. */
  readonly memoryBytes: number
  readonly fields: RegistryFields
}

export type RegisteredModel = {
  readonly name: string
  /** The model's repository, with `--model-namespacing`; else ''. */
  readonly namespace: string
  readonly fields: RegistryFields
  /** The registry file that has `fields`; '' when there is none. */
  readonly file: string
  readonly problems: readonly string[]
  /** The part that a load request replaced: the configuration or the files. */
  readonly override: '' | 'config' | 'files'
  /** Why the model has no version; '' when it has one. */
  readonly reason: string
  readonly versions: readonly RegisteredVersion[]
}

/** A row of the repository index with the registry's additions. */
export type DetailedIndexEntry = {
  readonly name: string
  readonly version: string
  readonly state: ModelVersionState | ''
  readonly reason: string
  /** Null for a row without a version. */
  readonly details: RegisteredVersion | null
  readonly fields: RegistryFields
}

export type RegistryQuery = {
  /** A model must have all of these tags; empty: every model fits. */
  readonly tags: readonly string[]
  readonly owner: string | null
  /** Searched in name, owner, description, tags and framework; upper and lower case are equal. '' fits every model. */
  readonly text: string
  readonly limit: number
  /** Only models whose name comes after this name, in the order of the answer. */
  readonly after: string
}

export type RegistryPage = {
  readonly models: readonly RegisteredModel[]
  /** How many models fit the query in all. */
  readonly total: number
  /** The value of `after` for the next page; null on the last page. */
  readonly next: string | null
}
