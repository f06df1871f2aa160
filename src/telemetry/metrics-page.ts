// What `GET /metrics` prints, family after family.

import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Clock } from '../base/clock.ts'
import type { CustomFamily, CustomSeries } from './custom-metrics.ts'
import { gpuText } from './gpu-families.ts'
import type { GpuState } from './gpu-metrics.ts'
import type { HostMetrics } from './host-metrics.ts'
import { modelFamilies, type FamilySettings } from './model-families.ts'
import type { LedgerEntry, ModelLedger } from './model-ledger.ts'
import type { ModelTotals } from './model-totals.ts'
import { familyHead, histogramLines, labelText, sampleLine } from './prometheus-text.ts'

export type MetricsSources = {
  readonly clock: Clock
  readonly ledger: ModelLedger
  /** Null: `--allow-cpu-metrics=false`. */
  readonly host: HostMetrics | null
  /** Those that report; none on a machine without. */
  readonly gpus: () => Iterable<GpuState>
  /** Those that models made themselves. */
  readonly customFamilies: () => Iterable<CustomFamily>
  /** Whether `/v2/health/ready` says so. */
  readonly isReady: () => boolean
}

/** A family without labels. `isOwn`: Triton does not have it. */
export type ServerFamily = { readonly name: string; readonly help: string; readonly isOwn: boolean }

const pinnedFamilies: readonly ServerFamily[] = [
  {
    name: 'nv_pinned_memory_pool_total_bytes',
    help: 'Pinned memory pool total memory size, in bytes',
    isOwn: false,
  },
  { name: 'nv_pinned_memory_pool_used_bytes', help: 'Pinned memory pool used memory size, in bytes', isOwn: false },
]
const cpuFamily = { name: 'nv_cpu_utilization', help: 'CPU utilization rate [0.0 - 1.0]', isOwn: false }
const memoryTotalFamily = { name: 'nv_cpu_memory_total_bytes', help: 'CPU total memory (RAM), in bytes', isOwn: false }
const memoryUsedFamily = { name: 'nv_cpu_memory_used_bytes', help: 'CPU used memory (RAM), in bytes', isOwn: false }
const readyFamily = { name: 'galatea_ready', help: '1 when the server calls itself ready, else 0', isOwn: true }
const loopDelayFamily = {
  name: 'galatea_event_loop_delay_p99_seconds',
  help: 'How late the main thread was, 99th percentile since the page was last asked for',
  isOwn: true,
}

const loopProbeMs = 20

/** All of them are gauges. */
export const serverFamilies: readonly ServerFamily[] = [
  ...pinnedFamilies,
  cpuFamily,
  memoryTotalFamily,
  memoryUsedFamily,
  readyFamily,
  loopDelayFamily,
]

export class MetricsPage {
  readonly #sources: MetricsSources
  readonly #settings: FamilySettings
  readonly #loopDelay: ReturnType<typeof monitorEventLoopDelay> | null

  constructor(sources: MetricsSources, settings: FamilySettings) {
    this.#sources = sources
    this.#settings = settings
    this.#loopDelay = settings.hasOwnFamilies ? monitorEventLoopDelay({ resolution: loopProbeMs }) : null
    this.#loopDelay?.enable()
  }

  close(): void {
    this.#loopDelay?.disable()
  }

  /** Piece by piece, so that a page of many series need not be written in one go. */
  *pieces(): IterableIterator<string> {
    yield* this.#modelPieces()
    for (const family of this.#sources.customFamilies()) yield* customPieces(family)
    yield this.#serverText()
  }

  *#modelPieces(): IterableIterator<string> {
    const { ledger, clock } = this.#sources
    const settings = this.#settings
    const context = { settings, nowNs: clock.nowNs() }
    const rows = [...ledger.entries()].map((entry): [LedgerEntry, ModelTotals] => [entry, entry.totals()])
    for (const family of modelFamilies) {
      if (!family.isOn(settings)) continue
      let hasHead = false
      for (const [entry, totals] of rows) {
        if (!entry.isServing && !family.outlivesVersion) continue
        const lines = family.lines(entry, totals, context)
        if (lines === '') continue
        yield hasHead ? lines : familyHead(family.name, family.help, family.type) + lines
        hasHead = true
      }
    }
  }

  #serverText(): string {
    const { host, gpus, isReady } = this.#sources
    // There is no pool of pinned memory: nothing is copied to a GPU through one.
    let text = gpuText([...gpus()]) + pinnedFamilies.map((family) => gauge(family, 0)).join('')
    if (host !== null) {
      text +=
        gauge(cpuFamily, host.cpuUtilization) +
        gauge(memoryTotalFamily, host.memory.totalBytes) +
        gauge(memoryUsedFamily, host.memory.usedBytes)
    }
    if (this.#loopDelay !== null) {
      // What is measured is the time between two probes: a loop that is never late shows the interval itself.
      const lateNs = Math.max(0, this.#loopDelay.percentile(99) - loopProbeMs * 1e6)
      text += gauge(readyFamily, isReady() ? 1 : 0) + gauge(loopDelayFamily, lateNs / 1e9)
      this.#loopDelay.reset()
    }
    return text
  }
}

const gauge = ({ name, help }: ServerFamily, value: number): string =>
  familyHead(name, help, 'gauge') + sampleLine(name, '', value)

function* customPieces({ name, description, kind, series }: CustomFamily): IterableIterator<string> {
  if (series.size === 0) return
  yield familyHead(name, description, kind)
  for (const one of series.values()) yield customLines(name, kind, one)
}

function customLines(name: string, kind: CustomFamily['kind'], series: CustomSeries): string {
  const labels = labelText(series.labels)
  if (kind === 'histogram') return histogramLines(name, labels, series.buckets, series.counts, series.sum)
  return sampleLine(name, labels, series.value)
}
