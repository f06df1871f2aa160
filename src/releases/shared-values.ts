// Values that lie in a store which servers share, as they are believed: others may write there, too. What is not of its form is left out, so
// that one bad value stops nothing else.

import type { FeedbackEntry } from '../rollouts/feedback.ts'
import { noPins, type ModelPins, type ReleaseRecord } from './release-record.ts'

/** Characters of a value that is read. */
export const longestSharedText = 4 * 1024 * 1024
const mostPresenceModels = 2000
const mostPresenceVersions = 1000
const mostHeardEntries = 1000

/** What a server says of itself. */
export type ServerPresence = {
  /** Where clients reach it. The same after a restart. */
  readonly url: string
  readonly version: string
  /** Wall clock. */
  readonly startedMs: number
  readonly isReady: boolean
  readonly reason: string
  /** Demand ÷ capacity; null while it is not measured yet. */
  readonly pressure: number | null
  /** The versions that are ready, by the name of the model. */
  readonly models: Readonly<Record<string, readonly string[]>>
  /** Models that are not told, because a server has too many. */
  readonly untold: number
}

type Mapping = Readonly<Record<string, unknown>>

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isText = (value: unknown): value is string => typeof value === 'string'
const textOf = (value: unknown): string => (isText(value) ? value.slice(0, 1000) : '')

/** Undefined for what is no JSON, or too long to be read. */
function jsonOf(text: string): unknown {
  if (text.length > longestSharedText) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What a server said of itself; null: nothing that can be understood. */
export function readPresence(url: string, text: string): ServerPresence | null {
  const said = jsonOf(text)
  if (!isMapping(said)) return null
  const { startedMs, pressure, models, untold } = said
  const isTime = typeof startedMs === 'number' && Math.abs(startedMs) <= 8.64e15
  const told = isMapping(models) ? Object.entries(models).slice(0, mostPresenceModels) : []
  return {
    url,
    version: textOf(said['version']),
    startedMs: isTime ? startedMs : 0,
    isReady: said['isReady'] === true,
    reason: textOf(said['reason']),
    pressure: typeof pressure === 'number' ? pressure : null,
    models: Object.fromEntries(told.map(([name, versions]) => [name, Array.isArray(versions) ? versions.filter(isText).slice(0, mostPresenceVersions) : []])), // prettier-ignore
    untold: typeof untold === 'number' ? untold : 0,
  }
}

/** Feedback that another server got; null: nothing that can be understood. */
export function readHeardFeedback(
  text: string,
): { readonly server: string; readonly model: string; readonly entries: readonly FeedbackEntry[] } | null {
  const heard = jsonOf(text)
  if (!isMapping(heard) || !isText(heard['server']) || !isText(heard['model'])) return null
  const { server, model, entries } = heard
  if (!Array.isArray(entries) || entries.length > mostHeardEntries || !entries.every(isEntry)) return null
  return { server, model, entries }
}

function isEntry(entry: unknown): entry is FeedbackEntry {
  if (!isMapping(entry) || !isText(entry['id'])) return false
  const { kind, label, isCorrect, name, score } = entry
  if (kind === 'label') return isText(label) || typeof label === 'number' || typeof label === 'boolean'
  if (kind === 'correct') return typeof isCorrect === 'boolean'
  return kind === 'score' && isText(name) && Number.isFinite(score)
}

/** The record of a rollout under this name; null for what is none. */
export function readSharedRecord(name: string, text: string): ReleaseRecord | null {
  const record = jsonOf(text)
  if (!isMapping(record) || record['name'] !== name || !isText(record['model'])) return null
  const { plan, state, arms, notes, createdMs } = record
  const hasParts = isMapping(plan) && isText(plan['kind']) && isMapping(state) && Number.isFinite(createdMs)
  const hasArms = Array.isArray(arms) && arms.length > 0 && arms.every((arm) => isMapping(arm) && ['arm', 'model', 'version', 'hash'].every((key) => isText(arm[key]))) // prettier-ignore
  return hasParts && hasArms && Array.isArray(notes) ? (record as unknown as ReleaseRecord) : null
}

const partForms: Readonly<Record<string, (value: unknown) => boolean>> = {
  standard: isText,
  newest: isText,
  instead: (value) => value === null || (isMapping(value) && isText(value['model']) && isText(value['version'])),
  held: (value) => Array.isArray(value) && value.every((one) => isMapping(one) && isText(one['version']) && isText(one['hash']) && isText(one['rollout'])), // prettier-ignore
  labels: (value) => isMapping(value) && Object.values(value).every(isText),
}

/** Pins by model, from values whose keys are a model and a part, parted by a line break. */
export function readSharedPins(texts: Readonly<Record<string, string>>): ModelPins[] {
  const byModel = new Map<string, ModelPins>()
  for (const [key, text] of Object.entries(texts)) {
    const [model = '', part = ''] = key.split('\n')
    const value = jsonOf(text)
    if (!Object.hasOwn(partForms, part) || partForms[part]?.(value) !== true) continue
    byModel.set(model, { ...(byModel.get(model) ?? noPins(model, '')), [part]: value })
  }
  return [...byModel.values()]
}
