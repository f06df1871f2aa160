// What Galatea's registry answers. Names are those of the registry file.

import type { CallOptions } from './infer-request.ts'

export type RegistryFields = {
  readonly owner?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly framework?: string
  readonly training_data?: readonly string[]
  readonly metrics?: Readonly<Record<string, number>>
  readonly approved_by?: readonly string[]
  readonly lineage?: { readonly parent_version?: string; readonly source_uri?: string }
  readonly cost?: { readonly instance_hour: number }
  readonly extra?: Readonly<Record<string, unknown>>
}

export type RegisteredVersion = RegistryFields & {
  readonly version: string
  readonly state?: string
  readonly reason?: string
  /** `sha256:…` of its files. */
  readonly content_hash?: string
  readonly size_bytes?: number
  readonly file_count?: number
  readonly memory_bytes?: number
  readonly loaded_at?: string
}

export type RegisteredModel = RegistryFields & {
  readonly name: string
  /** With `--model-namespacing`. */
  readonly namespace?: string
  readonly file?: string
  readonly problems?: readonly string[]
  readonly override?: 'config' | 'files'
  readonly reason?: string
  readonly versions: readonly RegisteredVersion[]
}

export type RegistrySearch = CallOptions & {
  /** Models that have all of them. */
  readonly tags?: readonly string[]
  readonly owner?: string
  /** Anywhere in name, owner, description, tags or framework. */
  readonly text?: string
  readonly limit?: number
  /** What the page before said as `next`. */
  readonly after?: string
}

export type RegistryPage = {
  readonly models: readonly RegisteredModel[]
  readonly total: number
  /** Missing on the last page. */
  readonly next?: string
}

export type ModelChange = {
  readonly time: string
  readonly action: 'load' | 'reload' | 'unload' | 'sleep'
  readonly model: string
  readonly versions?: readonly { readonly version: string; readonly content_hash?: string }[]
  readonly outcome: 'ok' | 'unchanged' | 'failed'
  readonly reason?: string
  readonly duration_ms: number
  readonly override?: 'config' | 'files'
  readonly by: string
  readonly address?: string
  readonly key?: string
  readonly request_id?: string
  readonly trace_id?: string
  readonly because?: string
}
