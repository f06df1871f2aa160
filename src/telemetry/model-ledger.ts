// Which model versions have metrics, and what they did under one set of labels across reloads.

import { ModelTotals } from './model-totals.ts'
import { labelText, namespaceLabel, type Labels } from './metrics-text.ts'
import { queueRefusals, type QueueRefusal, type QueueReport } from '../model/queue-report.ts'
import type { Statistics } from './statistics.ts'

/** What the instances of a version have done so far. */
export interface Workload {
  readonly count: number
  readonly readyCount: number
  /** How often a Worker of the instances was started anew. */
  readonly restartCount: number
  /** The time in which the instances had something to execute, added up until now. */
  busyNs(nowNs: number): number
}

/** The workload of a model without instances, as an ensemble is. */
export const noWorkload: Workload = { count: 0, readyCount: 0, restartCount: 0, busyNs: () => 0 }

/** A version that serves, as metrics see it. */
export interface MeteredVersion {
  readonly name: string
  /** Undefined where models have no namespaces. */
  readonly namespace?: string | undefined
  readonly version: string
  /** Requests waiting. */
  readonly pendingCount: number
  /** Requests admitted and not ended. */
  readonly inFlightCount: number
  /** The time from the decision to load the version until it could serve. */
  readonly loadSeconds: number
  readonly workload: Workload
  /** Null or absent: there is no queue that would know. */
  readonly queue?: QueueReport | null
}

type LedgerOptions = {
  /** `--metrics-config summary_latencies` */
  readonly hasSummaries: boolean
  /** `--metrics-config histogram_latencies` */
  readonly hasFirstResponses: boolean
  /** `--galatea-metrics`. When false, figures that only those metrics show are not measured. */
  readonly hasOwnFamilies: boolean
}

type Live = { readonly version: MeteredVersion; readonly statistics: Statistics }

export class LedgerEntry {
  readonly labels: Labels
  readonly labelText: string
  readonly live = new Set<Live>()
  #gone = new ModelTotals()
  #goneRestarts = 0
  #goneBusyNs = 0
  readonly #goneRefusals = new Map<QueueRefusal, number>()

  constructor(labels: Labels) {
    this.labels = labels
    this.labelText = labelText(labels)
  }

  /** False when the last version is gone. Then the page shows the failures only. */
  get isServing(): boolean {
    return this.live.size > 0
  }

  totals(): ModelTotals {
    const totals = new ModelTotals()
    totals.addTotals(this.#gone)
    for (const { statistics } of this.live) totals.add(statistics)
    return totals
  }

  /** True when a version that serves has a response cache. */
  get hasCache(): boolean {
    for (const { statistics } of this.live) if (statistics.hasCache) return true
    return false
  }

  /** Over the versions that serve. */
  sum(read: (version: MeteredVersion) => number): number {
    let sum = 0
    for (const { version } of this.live) sum += read(version)
    return sum
  }

  pendingCount(): number {
    return this.sum((version) => version.pendingCount)
  }

  busyNs(nowNs: number): number {
    return this.sum(({ workload }) => workload.busyNs(nowNs)) + this.#goneBusyNs
  }

  refusalCount(reason: QueueRefusal): number {
    return this.sum(({ queue }) => queue?.counts[reason] ?? 0) + (this.#goneRefusals.get(reason) ?? 0)
  }

  restartCount(): number {
    return this.sum(({ workload }) => workload.restartCount) + this.#goneRestarts
  }

  /** The load time of the version that was loaded last. */
  loadSeconds(): number {
    return [...this.live].at(-1)?.version.loadSeconds ?? 0
  }

  remove(live: Live, nowNs: number): void {
    if (!this.live.delete(live)) return
    this.#gone.add(live.statistics)
    const { queue } = live.version
    for (const reason of queueRefusals) {
      this.#goneRefusals.set(reason, (this.#goneRefusals.get(reason) ?? 0) + (queue?.counts[reason] ?? 0))
    }
    this.#goneRestarts += live.version.workload.restartCount
    this.#goneBusyNs += live.version.workload.busyNs(nowNs)
    if (this.isServing) return
    // The series end here. If the version is loaded again they begin anew, as a counter may.
    this.#gone = this.#gone.withoutSuccesses()
    this.#goneRestarts = 0
    this.#goneRefusals.clear()
    this.#goneBusyNs = 0
  }
}

/** Versions that are gone and whose failures the page shows. Clients that load models choose their names. */
const mostGone = 1000

export class ModelLedger {
  readonly options: LedgerOptions
  readonly #entries = new Map<string, LedgerEntry>()
  /** The keys of those that are gone, the first that went first. */
  readonly #gone = new Set<string>()

  constructor(options: LedgerOptions = { hasSummaries: false, hasFirstResponses: false, hasOwnFamilies: true }) {
    this.options = options
  }

  /** The returned function is to be called once, when the version is gone. */
  open(version: MeteredVersion, tags: ReadonlyMap<string, string>, statistics: Statistics): (nowNs: number) => void {
    const labels: Labels = [
      ['model', version.name],
      ...namespaceLabel(version.namespace),
      ['version', version.version],
      ...[...tags].map(([name, value]): [string, string] => [`_${name}`, value]),
    ]
    const key = labelText(labels)
    const entry = this.#entries.get(key) ?? new LedgerEntry(labels)
    this.#entries.set(key, entry)
    this.#gone.delete(key)
    const live = { version, statistics }
    entry.live.add(live)
    return (nowNs) => {
      entry.remove(live, nowNs)
      if (!entry.isServing) this.#noteGone(key)
    }
  }

  #noteGone(key: string): void {
    const [first] = this.#gone.add(key)
    if (this.#gone.size <= mostGone || first === undefined) return
    this.#gone.delete(first)
    this.#entries.delete(first)
  }

  entries(): Iterable<LedgerEntry> {
    return this.#entries.values()
  }
}
