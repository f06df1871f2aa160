// TorchServe's metrics page, under its names.

import { statfsSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Engine } from '../../engine/engine.ts'
import type { TorchserveModels } from './torchserve-models.ts'

/** The machine, read at intervals. */
type Host = {
  readonly cpuUtilization: number
  readonly memory: { readonly totalBytes: number; readonly usedBytes: number }
}

/** What handlers made themselves. */
type HandlerMetrics = {
  families(): Iterable<{ readonly name: string; readonly kind?: string; readonly series: ReadonlyMap<string, Series> }>
}
type Series = { readonly labels: readonly (readonly [name: string, value: string])[]; readonly value: number }

/** Which models the reader may see; null: all. */
type Visible = ((model: string) => boolean) | null
type Stats = ReturnType<Engine['statistics']>[number]
type Total = { readonly count: number; readonly ns: number | bigint }
type Mean = { readonly count: number; readonly ns: number; readonly ms: number }
type Row = readonly [labels: string, value: number]
type Family = readonly [name: string, kind: 'counter' | 'gauge', unit: string, rows: readonly Row[]]

const mebi = 1024 ** 2
const gibi = 1024 ** 3

export class TorchserveCounts {
  readonly #host: Host
  readonly #engine: Engine
  readonly #models: TorchserveModels
  readonly #ofHandlers: HandlerMetrics
  readonly #byClass = new Map<number, number>()
  #means: ReadonlyMap<string, Mean> = new Map()

  constructor(
    host: Host,
    engine: Engine,
    models: TorchserveModels,
    ofHandlers: HandlerMetrics = { families: () => [] },
  ) {
    this.#host = host
    this.#ofHandlers = ofHandlers
    this.#engine = engine
    this.#models = models
  }

  answered(status: number): void {
    const kind = Math.floor(status / 100)
    this.#byClass.set(kind, (this.#byClass.get(kind) ?? 0) + 1)
  }

  /** Only the families of these names; without names all of them. */
  text(names: readonly string[], isVisible: Visible): string {
    const own = [...this.#hostFamilies(), ...this.#modelFamilies(isVisible)]
    const lines = [...own, ...this.#handlerFamilies(new Set(own.map(([name]) => name)), isVisible)]
      .filter(([name]) => names.length === 0 || names.includes(name))
      .flatMap(([name, kind, unit, rows]) => [
        `# HELP ${name} Torchserve prometheus ${kind} metric with unit: ${unit}`,
        `# TYPE ${name} ${kind}`,
        ...rows.map(([labels, value]) => `${name}{${labels}} ${Number.isInteger(value) ? value.toFixed(1) : value}`),
      ])
    return `${lines.join('\n')}\n`
  }

  #hostFamilies(): Family[] {
    const { cpuUtilization, memory } = this.#host
    const { totalBytes, usedBytes } = memory
    const { bsize, blocks, bavail, bfree } = statfsSync('/')
    const usedBlocks = blocks - bfree
    const share = (part: number, whole: number): Row[] => ofHost(whole === 0 ? 0 : (part / whole) * 100)
    return [
      ...[2, 4, 5].map((kind): Family => {
        return [`Requests${kind}XX`, 'counter', 'Count', ofHost(this.#byClass.get(kind) ?? 0)]
      }),
      ['CPUUtilization', 'gauge', 'Percent', ofHost(cpuUtilization * 100)],
      ['MemoryUsed', 'gauge', 'Megabytes', ofHost(usedBytes / mebi)],
      ['MemoryAvailable', 'gauge', 'Megabytes', ofHost((totalBytes - usedBytes) / mebi)],
      ['MemoryUtilization', 'gauge', 'Percent', share(usedBytes, totalBytes)],
      ['DiskUsage', 'gauge', 'Gigabytes', ofHost((usedBlocks * bsize) / gibi)],
      ['DiskAvailable', 'gauge', 'Gigabytes', ofHost((bavail * bsize) / gibi)],
      ['DiskUtilization', 'gauge', 'Percent', share(usedBlocks, usedBlocks + bavail)],
    ]
  }

  /** Under other names than our own: a family comes once. */
  #handlerFamilies(known: ReadonlySet<string>, isVisible: Visible): Family[] {
    const families: Family[] = []
    for (const { name, kind, series } of this.#ofHandlers.families()) {
      if (known.has(name) || (kind !== 'counter' && kind !== 'gauge')) continue
      const shown = [...series.values()].filter(({ labels }) => {
        const model = labels.find(([label]) => label === 'ModelName')?.[1]
        return isVisible === null || (model !== undefined && isVisible(model))
      })
      const rows = shown.map(({ labels, value }): Row => {
        return [labelsOf({ ...Object.fromEntries(labels), Hostname: hostname() }), value]
      })
      families.push([name, kind, 'handler', rows])
    }
    return families
  }

  #modelFamilies(isVisible: Visible): Family[] {
    const models = this.#models
    const shown = this.#engine.statistics('', '').filter(({ name }) => isVisible === null || isVisible(name))
    const means = new Map<string, Mean>()
    const recent = (key: string, total: Total): number => {
      const mean = meanSince(this.#means.get(key), total)
      means.set(key, mean)
      return mean.ms
    }
    const counted = (value: (one: Stats) => number): Row[] =>
      shown.map((one) => {
        const { name, version } = one
        const labels = { model_name: name, model_version: models.versionName(name, version), hostname: hostname() }
        return [labelsOf(labels), value(one)]
      })
    const total = (part: 'success' | 'queue'): Row[] =>
      counted(({ inferenceStats }) => Number(inferenceStats[part].ns) / 1000)
    // TorchServe shows the last request. Here it is the mean of all since the page was shown last.
    const times = shown.map(({ name, version, inferenceStats }): Row => {
      const ms = recent([name, version].join('\n'), inferenceStats.computeInfer)
      return [labelsOf({ ModelName: name, Level: 'Model', Hostname: hostname() }), ms]
    })
    const all = (family: string, ...parts: ('queue' | 'computeInput' | 'computeOutput')[]): Row[] => {
      const count = shown.reduce((sum, { inferenceStats }) => sum + inferenceStats.success.count, 0)
      const totals = shown.flatMap(({ inferenceStats }) => parts.map((part) => Number(inferenceStats[part].ns)))
      return ofHost(recent(family, { count, ns: totals.reduce((sum, ns) => sum + ns, 0) }))
    }
    const started = isVisible === null ? models.loadTimes() : []
    const loads = started.map(([worker, ms]): Row => [labelsOf({ WorkerName: worker, ...host }), ms])
    const families: Family[] = [
      ['ts_inference_requests_total', 'counter', 'Count', counted((one) => one.inferenceCount)],
      ['ts_inference_latency_microseconds', 'counter', 'Microseconds', total('success')],
      ['ts_queue_latency_microseconds', 'counter', 'Microseconds', total('queue')],
      ['QueueTime', 'gauge', 'Milliseconds', all('QueueTime', 'queue')],
      ['WorkerThreadTime', 'gauge', 'Milliseconds', all('WorkerThreadTime', 'computeInput', 'computeOutput')],
      ['WorkerLoadTime', 'gauge', 'Milliseconds', loads],
      ['HandlerTime', 'gauge', 'ms', times],
      ['PredictionTime', 'gauge', 'ms', times],
    ]
    this.#means = means
    return families
  }
}

/** The mean of what came since; where nothing did, the mean before. A model that was loaded anew counts from zero. */
function meanSince(before: Mean | undefined, { count, ns }: Total): Mean {
  const last = before === undefined || count < before.count ? { count: 0, ns: 0, ms: 0 } : before
  const added = count - last.count
  return { count, ns: Number(ns), ms: added === 0 ? last.ms : (Number(ns) - last.ns) / added / 1e6 }
}

const escaped = (text: string): string => text.replace(/["\\\n]/g, (mark) => (mark === '\n' ? '\\n' : `\\${mark}`))
const labelsOf = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}",`)
    .join('')
const host = { Level: 'Host', Hostname: hostname() }
const ofHost = (value: number): Row[] => [[labelsOf(host), value]]
