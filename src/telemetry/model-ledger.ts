// Which model versions have metrics, and what they did under one set of labels across reloads.

import { ModelTotals } from './model-totals.ts'
import { labelText, type Labels } from './prometheus-text.ts'
import type { Statistics } from './statistics.ts'

/** A version that serves, as metrics see it. */
export interface MeteredVersion {
  readonly name: string
  readonly version: string
  /** Requests waiting. */
  readonly pendingCount: number
  /** Requests admitted and not ended. */
  readonly inFlightCount: number
  /** How long it took from the decision to load it until it could serve. */
  readonly loadSeconds: number
}

export type LedgerOptions = {
  /** `--metrics-config summary_latencies` */
  readonly hasSummaries: boolean
  /** `--metrics-config histogram_latencies` */
  readonly hasFirstResponses: boolean
}

type Live = { readonly version: MeteredVersion; readonly statistics: Statistics }

export class LedgerEntry {
  readonly labels: Labels
  readonly labelText: string
  readonly live = new Set<Live>()
  #gone = new ModelTotals()

  constructor(labels: Labels) {
    this.labels = labels
    this.labelText = labelText(labels)
  }

  /** False once its last version is gone: then only the failures are still told. */
  get isServing(): boolean {
    return this.live.size > 0
  }

  totals(): ModelTotals {
    const totals = new ModelTotals()
    totals.addTotals(this.#gone)
    for (const { statistics } of this.live) totals.add(statistics)
    return totals
  }

  pendingCount(): number {
    let count = 0
    for (const { version } of this.live) count += version.pendingCount
    return count
  }

  inFlightCount(): number {
    let count = 0
    for (const { version } of this.live) count += version.inFlightCount
    return count
  }

  /** Of the version that was loaded last. */
  loadSeconds(): number {
    return [...this.live].at(-1)?.version.loadSeconds ?? 0
  }

  remove(live: Live): void {
    if (!this.live.delete(live)) return
    this.#gone.add(live.statistics)
    // The series end here. If the version is loaded again they begin anew, as a counter may.
    if (!this.isServing) this.#gone = this.#gone.withoutSuccesses()
  }
}

export class ModelLedger {
  readonly options: LedgerOptions
  readonly #entries = new Map<string, LedgerEntry>()

  constructor(options: LedgerOptions = { hasSummaries: false, hasFirstResponses: false }) {
    this.options = options
  }

  /** The returned function is to be called once, when the version is gone. */
  open(version: MeteredVersion, tags: ReadonlyMap<string, string>, statistics: Statistics): () => void {
    const labels: Labels = [
      ['model', version.name],
      ['version', version.version],
      ...[...tags].map(([name, value]): [string, string] => [`_${name}`, value]),
    ]
    const key = labelText(labels)
    const entry = this.#entries.get(key) ?? new LedgerEntry(labels)
    this.#entries.set(key, entry)
    const live = { version, statistics }
    entry.live.add(live)
    return () => entry.remove(live)
  }

  entries(): Iterable<LedgerEntry> {
    return this.#entries.values()
  }
}
