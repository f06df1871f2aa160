// What `GET /metrics` prints, family after family.

import { alertPieces } from './alert-families.ts'
import { jobPieces, type JobSources } from './job-families.ts'
import { monitorEventLoopDelay, type ELDHistogram } from 'node:perf_hooks'
import type { Clock } from '../base/clock.ts'
import type { CustomFamily } from './custom-metrics.ts'
import { gpuText } from './gpu-families.ts'
import type { GpuState } from './gpu-metrics.ts'
import { histogramLines, labelText, sampleLine, type MetricsText } from './metrics-text.ts'
import { modelFamilies } from './model-families.ts'
import type { FamilyContext, FamilySettings, ModelFamily } from './model-family.ts'
import type { LedgerEntry, ModelLedger } from './model-ledger.ts'
import type { ModelTotals } from './model-totals.ts'
import { rolloutPieces, type RolloutSources } from './rollout-families.ts'
import { residencyPieces, type ResidencySources } from './residency-families.ts'
import { scalingPieces, type ScaledFigures } from './scaling-families.ts'
import { tenantPieces, type TenantUse } from './tenant-families.ts'
import { loopProbeMs, serverText, type ServerSources } from './server-families.ts'

type MetricsSources = Omit<ServerSources, 'loopDelay'> & {
  readonly clock: Clock
  readonly ledger: ModelLedger
  /** GPUs that report; empty on a machine without GPUs. */
  readonly gpus: () => Iterable<GpuState>
  /** Metrics that models made themselves. */
  readonly customFamilies: () => Iterable<CustomFamily>
  /** Which models are in memory; absent where that is not tracked. */
  readonly residency?: ResidencySources
  /** Absent: there are no rollouts. */
  readonly rollouts?: RolloutSources
  /** What tenants use; left out without `--access-config`. */
  readonly tenants?: () => Iterable<TenantUse>
  /** What alerts made the server do, by the JSON text of action and outcome. */
  readonly alerts?: () => ReadonlyMap<string, number>
  /** Versions whose instances follow load. */
  readonly scaled?: () => Iterable<ScaledFigures>
  /** Left out without `--allow-jobs`. */
  readonly jobs?: JobSources
}

export class MetricsPage {
  readonly #sources: MetricsSources
  readonly #settings: FamilySettings
  /** Made for the first page. Its probes wake the process 50 times a second: a server whose page nobody asks for sleeps. */
  #loopDelay: ELDHistogram | null = null
  #isClosed = false

  constructor(sources: MetricsSources, settings: FamilySettings) {
    this.#sources = sources
    this.#settings = settings
  }

  close(): void {
    this.#loopDelay?.disable()
    this.#isClosed = true
  }

  /** Piece by piece, so that a page of many series need not be written in one go. */
  *pieces(text: MetricsText): IterableIterator<string> {
    const { customFamilies, gpus, residency, rollouts } = this.#sources
    yield* this.#modelPieces(text)
    if (residency !== undefined && this.#settings.hasOwnFamilies) yield* residencyPieces(text, residency)
    if (rollouts !== undefined && this.#settings.hasOwnFamilies) yield* rolloutPieces(text, rollouts)
    if (this.#settings.hasOwnFamilies) yield* scalingPieces(text, this.#sources.scaled?.() ?? [])
    if (this.#settings.hasOwnFamilies) yield* alertPieces(text, this.#sources.alerts?.() ?? new Map())
    if (this.#sources.tenants !== undefined) yield* tenantPieces(text, this.#sources.tenants())
    if (this.#sources.jobs !== undefined) yield* jobPieces(text, this.#sources.jobs)
    for (const family of customFamilies()) yield* customPieces(text, family)
    yield gpuText(text, [...gpus()])
    if (this.#settings.hasOwnFamilies) this.#loopDelay ??= monitorEventLoopDelay({ resolution: loopProbeMs })
    yield serverText(text, { ...this.#sources, loopDelay: this.#loopDelay })
    if (!this.#isClosed) this.#loopDelay?.enable()
    yield text.end
  }

  *#modelPieces(text: MetricsText): IterableIterator<string> {
    const { ledger, clock } = this.#sources
    const settings = this.#settings
    const load = settings.hasOwnFamilies ? (this.#sources.load?.() ?? null) : null
    const context: FamilyContext = { settings, text, nowNs: clock.nowNs(), wallMs: clock.wallMs(), load }
    const rows: [LedgerEntry, ModelTotals][] = []
    for (const entry of ledger.entries()) {
      rows.push([entry, entry.totals()])
      yield ''
    }
    for (const family of modelFamilies) {
      if (!family.isOn(settings)) continue
      let hasHead = false
      for (const [entry, totals] of rows) {
        if (!hasFamily(entry, family)) continue
        const lines = family.lines(entry, totals, context)
        if (lines === '') continue
        yield hasHead ? lines : text.familyHead(family.name, family.help, family.type) + lines
        hasHead = true
      }
    }
  }
}

function hasFamily(entry: LedgerEntry, { outlivesVersion, only }: ModelFamily): boolean {
  if (!entry.isServing) return outlivesVersion
  return only === null || entry.hasCache === (only === 'cached')
}

function* customPieces(text: MetricsText, family: CustomFamily): IterableIterator<string> {
  const { name, description, kind, series } = family
  if (series.size === 0) return
  yield text.familyHead(name, description, kind)
  for (const { labels, value, buckets, counts, sum } of series.values()) {
    const labelled = labelText(labels)
    yield kind === 'histogram'
      ? histogramLines(text, name, labelled, { bounds: buckets, counts, sum })
      : sampleLine(text, name, labelled, value)
  }
}
