// The last lines of the log, for people who look at a running server. Filled by whoever writes the log.

import type { LogEntry, LogLevel } from './log.ts'

export type KeptLogEntry = LogEntry & {
  /** Counts up from 1. */
  readonly number: number
  /** Milliseconds since 1970. */
  readonly wallMs: number
}

/** What a reader asks for; '' for all. */
export type LogQuery = {
  readonly model: string
  /** This level and the worse ones. */
  readonly level: LogLevel
  readonly text: string
}

const mostEntries = 5000
const mostBytes = 4 * 1024 * 1024
const longestMessage = 4096
/** What stays of a model with an error after its lines have left the history. */
const mostOfFailedModel = 200
const mostFailedModels = 20
/** Fields, source and the objects themselves. */
const entryOverheadBytes = 200

export const logLevels: readonly LogLevel[] = ['verbose', 'info', 'warning', 'error']

export class LogHistory {
  #entries: KeptLogEntry[] = []
  #bytes = 0
  #count = 0
  readonly #failed = new Map<string, readonly KeptLogEntry[]>()
  readonly #watchers = new Set<(entry: KeptLogEntry) => void>()

  add(entry: LogEntry, wallMs: number): void {
    const message = entry.message.length > longestMessage ? `${entry.message.slice(0, longestMessage)}…` : entry.message
    const kept: KeptLogEntry = { ...entry, message, fields: shortened(entry), number: ++this.#count, wallMs }
    this.#entries.push(kept)
    this.#bytes += bytesOf(kept)
    let dropped = 0
    while (this.#entries.length - dropped > mostEntries || this.#bytes > mostBytes) {
      this.#bytes -= bytesOf(this.#entries[dropped++] as KeptLogEntry)
    }
    if (dropped > 0) this.#entries = this.#entries.slice(dropped)
    if (kept.level === 'error') this.#keepFailure(kept)
    for (const watcher of this.#watchers) watcher(kept)
  }

  /** Oldest first, at most `most` of the newest. */
  find(query: LogQuery, most: number): KeptLogEntry[] {
    const first = this.#entries[0]?.number ?? Infinity
    const earlier =
      query.model === '' ? [] : (this.#failed.get(query.model) ?? []).filter(({ number }) => number < first)
    return [...earlier, ...this.#entries].filter((entry) => fits(entry, query)).slice(-most)
  }

  /** The returned function takes it back. */
  watch(watcher: (entry: KeptLogEntry) => void): () => void {
    this.#watchers.add(watcher)
    return () => this.#watchers.delete(watcher)
  }

  #keepFailure({ fields }: KeptLogEntry): void {
    const { model } = fields
    if (typeof model !== 'string' || model === '') return
    this.#failed.delete(model)
    if (this.#failed.size >= mostFailedModels) this.#failed.delete(this.#failed.keys().next().value ?? '')
    this.#failed.set(model, this.find({ model, level: 'verbose', text: '' }, mostOfFailedModel))
  }
}

export function fits(entry: KeptLogEntry, { model, level, text }: LogQuery): boolean {
  if (logLevels.indexOf(entry.level) < logLevels.indexOf(level)) return false
  if (model !== '' && entry.fields['model'] !== model && !entry.message.includes(`'${model}'`)) return false
  if (text === '') return true
  const wanted = text.toLowerCase()
  if (entry.message.toLowerCase().includes(wanted)) return true
  return Object.values(entry.fields).some((value) => String(value).toLowerCase().includes(wanted))
}

function shortened({ fields }: LogEntry): LogEntry['fields'] {
  const isLong = Object.values(fields).some((value) => typeof value === 'string' && value.length > longestMessage)
  if (!isLong) return fields
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === 'string' && value.length > longestMessage ? `${value.slice(0, longestMessage)}…` : value,
    ]),
  )
}

function bytesOf({ message, fields }: KeptLogEntry): number {
  let bytes = message.length * 2 + entryOverheadBytes
  for (const value of Object.values(fields)) if (typeof value === 'string') bytes += value.length * 2
  return bytes
}
