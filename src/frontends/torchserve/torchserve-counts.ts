import { statfsSync } from 'node:fs'
import { hostname } from 'node:os'
import type { Engine } from '../../engine/engine.ts'

/** The machine, read at intervals. */
type Host = {
  readonly cpuUtilization: number
  readonly memory: { readonly totalBytes: number; readonly usedBytes: number }
}

/** What a page shows beside the counts. */
type Page = {
  readonly engine: Engine
  /** Only these families; empty: all. */
  readonly names: ReadonlySet<string>
  /** As TorchServe names a version of the Engine. */
  readonly versionOf: (model: string, version: string) => string
  /** How long the workers of each version took to start. */
  readonly loadTimes: readonly (readonly [worker: string, ms: number])[]
  /** Which models the reader may see; null: all. */
  readonly isVisible: ((model: string) => boolean) | null
}

type Total = { readonly count: number; readonly ns: number | bigint }
type Mean = { readonly count: number; readonly ns: number; readonly ms: number }
type Row = readonly [labels: string, value: number]
type Family = readonly [name: string, kind: 'counter' | 'gauge', unit: string, rows: readonly Row[]]

const mebi = 1024 ** 2
const gibi = 1024 ** 3

/** What TorchServe's metrics page shows, under its names. */
export class TorchserveCounts {
  readonly #host: Host
  readonly #byClass = new Map<number, number>()
  #means: ReadonlyMap<string, Mean> = new Map()

  constructor(host: Host) {
    this.#host = host
  }

  answered(status: number): void {
    const kind = Math.floor(status / 100)
    this.#byClass.set(kind, (this.#byClass.get(kind) ?? 0) + 1)
  }

  text(page: Page): string {
    const families = [...this.#hostFamilies(), ...this.#modelFamilies(page)]
    const lines = families
      .filter(([name]) => page.names.size === 0 || page.names.has(name))
      .flatMap(([name, kind, unit, rows]) => [
        `# HELP ${name} Torchserve prometheus ${kind} metric with unit: ${unit}`,
        `# TYPE ${name} ${kind}`,
        ...rows.map(([labels, value]) => `${name}{${labels}} ${Number.isInteger(value) ? value.toFixed(1) : value}`),
      ])
    return `${lines.join('\n')}\n`
  }

  #hostFamilies(): Family[] {
    const { cpuUtilization, memory } = this.#host
    const { bsize, blocks, bavail, bfree } = statfsSync('/')
    const free = memory.totalBytes - memory.usedBytes
    const ofHost = (value: number): Row[] => [[hostLabels, value]]
    const share = (part: number, whole: number): Row[] => ofHost(whole === 0 ? 0 : (part / whole) * 100)
    return [
      ...[2, 4, 5].map((kind): Family => {
        return [`Requests${kind}XX`, 'counter', 'Count', ofHost(this.#byClass.get(kind) ?? 0)]
      }),
      ['CPUUtilization', 'gauge', 'Percent', ofHost(cpuUtilization * 100)],
      ['MemoryUsed', 'gauge', 'Megabytes', ofHost(memory.usedBytes / mebi)],
      ['MemoryAvailable', 'gauge', 'Megabytes', ofHost(free / mebi)],
      ['MemoryUtilization', 'gauge', 'Percent', share(memory.usedBytes, memory.totalBytes)],
      ['DiskUsage', 'gauge', 'Gigabytes', ofHost(((blocks - bfree) * bsize) / gibi)],
      ['DiskAvailable', 'gauge', 'Gigabytes', ofHost((bavail * bsize) / gibi)],
      ['DiskUtilization', 'gauge', 'Percent', share(blocks - bfree, blocks - bfree + bavail)],
    ]
  }

  #modelFamilies({ engine, versionOf, loadTimes, isVisible }: Page): Family[] {
    const shown = engine.statistics('', '').filter(({ name }) => isVisible === null || isVisible(name))
    const means = new Map<string, Mean>()
    const recent = (key: string, total: Total): number => {
      const mean = meanSince(this.#means.get(key), total)
      means.set(key, mean)
      return mean.ms
    }
    const rows = (value: (one: (typeof shown)[number]) => number): Row[] =>
      shown.map((one) => {
        const labels = { model_name: one.name, model_version: versionOf(one.name, one.version), hostname: hostname() }
        return [labelsOf(labels), value(one)]
      })
    // TorchServe shows the last request. Here it is the mean of all since the page was shown last.
    const times = (family: string): Row[] =>
      shown.map(({ name, version, inferenceStats }) => {
        const ms = recent([family, name, version].join('\n'), inferenceStats.computeInfer)
        return [labelsOf({ ModelName: name, Level: 'Model', Hostname: hostname() }), ms]
      })
    const all = (family: string, parts: (one: (typeof shown)[number]['inferenceStats']) => readonly Total[]): Row[] => {
      const count = shown.reduce((sum, one) => sum + one.inferenceStats.success.count, 0)
      const ns = shown.flatMap((one) => parts(one.inferenceStats)).reduce((sum, part) => sum + Number(part.ns), 0)
      return [[hostLabels, recent(family, { count, ns })]]
    }
    const us = ({ ns }: Total): number => Number(ns) / 1000
    const loads = loadTimes.map(([worker, ms]): Row => [`${labelsOf({ WorkerName: worker })}${hostLabels}`, ms])
    const families: Family[] = [
      ['ts_inference_requests_total', 'counter', 'Count', rows((one) => one.inferenceCount)],
      ['ts_inference_latency_microseconds', 'counter', 'Microseconds', rows((one) => us(one.inferenceStats.success))],
      ['ts_queue_latency_microseconds', 'counter', 'Microseconds', rows((one) => us(one.inferenceStats.queue))],
      ['QueueTime', 'gauge', 'Milliseconds', all('QueueTime', ({ queue }) => [queue])],
      [
        'WorkerThreadTime',
        'gauge',
        'Milliseconds',
        all('WorkerThreadTime', ({ computeInput, computeOutput }) => [computeInput, computeOutput]),
      ],
      ['WorkerLoadTime', 'gauge', 'Milliseconds', loads],
      ['HandlerTime', 'gauge', 'ms', times('HandlerTime')],
      ['PredictionTime', 'gauge', 'ms', times('PredictionTime')],
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
const hostLabels = labelsOf({ Level: 'Host', Hostname: hostname() })
