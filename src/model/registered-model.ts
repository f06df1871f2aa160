// What the registry knows of a model: what people say about it, what it is made of, how it serves.

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
  /** '' for one that was never tried. */
  readonly state: ModelVersionState | ''
  readonly reason: string
  /** What it was loaded from, or would be; null when that is not known (yet). */
  readonly content: VersionContent | null
  /** Since when it serves; null when it does not. */
  readonly loadedMs: number | null
  /** What it is reckoned to take; 0 when that is not known. */
  readonly memoryBytes: number
  readonly fields: RegistryFields
}

export type RegisteredModel = {
  readonly name: string
  /** The repository it is from, with `--model-namespacing`; else ''. */
  readonly namespace: string
  readonly fields: RegistryFields
  /** The file that says so; '' when there is none. */
  readonly file: string
  readonly problems: readonly string[]
  /** What came with a load request in place of the repository's. */
  readonly override: '' | 'config' | 'files'
  /** Why there is no version; '' when there is one. */
  readonly reason: string
  readonly versions: readonly RegisteredVersion[]
}

/** A row of the index and what the registry adds to it. */
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
  /** All of them; none: any. */
  readonly tags: readonly string[]
  readonly owner: string | null
  /** Anywhere in name, owner, description, tags or framework, in any case; '' fits everything. */
  readonly text: string
  readonly limit: number
  /** Only names after this one, in the order of the answer. */
  readonly after: string
}

export type RegistryPage = {
  readonly models: readonly RegisteredModel[]
  /** How many fit in all. */
  readonly total: number
  /** What to ask for `after` next; null at the end. */
  readonly next: string | null
}
