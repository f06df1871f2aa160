// One change of a model as a line of the audit log.

import type { ChangeCause, ChangeOrigin } from '../model/change-origin.ts'

/** `reload` loads a model that served already; `sleep` takes a model out of memory until the next request; `rollout.…` moves a rollout; `access.…` is about
 * keys and refused calls; `alert.…` is what an alert made the server do. */
export type AuditAction =
  'load' | 'reload' | 'unload' | 'sleep' | `rollout.${string}` | `access.${string}` | `alert.${string}`
/** `unchanged`: the model served already, from the same files. */
export type AuditOutcome = 'ok' | 'unchanged' | 'failed'

export type AuditedVersion = {
  readonly version: string
  /** The hash of the version's files; '' when it is not known. */
  readonly contentHash: string
}

export type AuditEntry = {
  /** When the change began. */
  readonly timeMs: number
  readonly action: AuditAction
  readonly model: string
  /** The versions that serve after a load, or that served before an unload. */
  readonly versions: readonly AuditedVersion[]
  readonly outcome: AuditOutcome
  /** Why the change failed or the model was put to sleep; '' without a reason. */
  readonly reason: string
  readonly durationMs: number
  /** What the request brought in place of the repository's files. */
  readonly override: '' | 'config' | 'files'
  readonly origin: ChangeOrigin
}

const maxNameChars = 256
const maxReasonChars = 2000
const maxVersions = 100

/** The entry as on the wire and in the file. Empty members are left out. */
export type AuditJson = {
  readonly time: string
  readonly action: string
  readonly model: string
  readonly versions?: readonly { readonly version: string; readonly content_hash?: string }[]
  readonly outcome: string
  readonly reason?: string
  readonly duration_ms: number
  readonly override?: string
  readonly by: string
  readonly address?: string
  readonly key?: string
  readonly request_id?: string
  readonly trace_id?: string
  readonly because?: string
}

export function auditJson(entry: AuditEntry): AuditJson {
  const { origin } = entry
  const versions = entry.versions.slice(0, maxVersions).map(({ version, contentHash }) => ({
    version,
    ...(contentHash === '' ? {} : { content_hash: `sha256:${contentHash}` }),
  }))
  return {
    time: new Date(entry.timeMs).toISOString(),
    action: entry.action,
    model: cut(entry.model, maxNameChars),
    ...(versions.length === 0 ? {} : { versions }),
    outcome: entry.outcome,
    ...said('reason', entry.reason, maxReasonChars),
    duration_ms: Math.round(entry.durationMs * 10) / 10,
    ...said('override', entry.override, maxNameChars),
    by: origin.by,
    ...said('address', origin.address, maxNameChars),
    ...said('key', origin.key, maxNameChars),
    ...said('request_id', origin.requestId, maxNameChars),
    ...said('trace_id', origin.traceId, maxNameChars),
    ...said('because', origin.because, maxNameChars),
  }
}

/** One line of plain text whatever is in it: no control character, and none that a terminal or a reader takes for one. */
export const auditLine = (json: AuditJson): string =>
  `${JSON.stringify(json).replaceAll(hidden, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`

// JSON itself escapes what is below U+0020. These are the others: controls, line ends, and marks that turn text around.
const hidden = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** Reads a line that was written earlier; null when the text is no such line. */
export function parseAuditLine(line: string): AuditJson | null {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return null
  }
  if (typeof value !== 'object' || value === null) return null
  const { time, action, model, outcome, by } = value as Partial<Record<string, unknown>>
  const isEntry = [time, action, model, outcome, by].every((member) => typeof member === 'string')
  return isEntry ? (value as AuditJson) : null
}

const said = (key: string, text: string, limit: number): Readonly<Record<string, string>> =>
  text === '' ? {} : { [key]: cut(text, limit) }

const cut = (text: string, limit: number): string => (text.length > limit ? `${text.slice(0, limit - 1)}…` : text)

/** The client's own words, for those who need no more of it. */
export const isAskedByClient = (by: ChangeCause): boolean =>
  by === 'http' || by === 'grpc' || by === 'model' || by === 'embedding'
