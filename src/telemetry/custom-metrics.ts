// Custom metrics in memory: families, series, and what the Prometheus page prints of them.

import { ServerError } from '../base/server-error.ts'
import type { CustomMetricKind, CustomMetrics } from '../model/custom-metrics.ts'
import { gpuFamilies } from './gpu-families.ts'
import { modelFamilies } from './model-families.ts'
import { residencyFamilies } from './residency-families.ts'
import { serverFamilies } from './server-families.ts'

type CustomSeries = {
  /** Sorted by name, as they are printed. */
  readonly labels: readonly (readonly [name: string, value: string])[]
  value: number
  /** Histograms only: upper bounds, how many observations fell at or below each and above the one before, their sum. */
  readonly buckets: readonly number[]
  readonly counts: number[]
  sum: number
}

export type CustomFamily = {
  readonly name: string
  readonly description: string
  readonly kind: CustomMetricKind
  readonly series: ReadonlyMap<string, CustomSeries>
}

type Series = CustomSeries & { readonly key: string; readonly family: Family; ownerCount: number }
type Family = Omit<CustomFamily, 'series'> & { readonly series: Map<string, Series> }

/** More series are a mistake of the model, as a label made from request data is, and would fill every scraper's memory. */
const seriesLimit = 100_000

/** A second family of one name would make the whole page unreadable to Prometheus. */
const ownNames: ReadonlySet<string> = new Set(
  [...modelFamilies, ...residencyFamilies, ...serverFamilies, ...gpuFamilies].map(({ name }) => name),
)

export class CustomMetricRegistry implements CustomMetrics {
  readonly #families = new Map<string, Family>()
  readonly #metrics = new Map<number, Series>()
  #nextMetric = 1
  #seriesCount = 0

  /** In the order they were made. A family stays when its series are gone, as in Triton. */
  families(): Iterable<CustomFamily> {
    return this.#families.values()
  }

  createFamily(name: string, description: string, kind: CustomMetricKind): void {
    if (!/^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(name)) {
      throw new ServerError('INVALID_ARG', `Invalid metric name: '${name}'`)
    }
    if (ownNames.has(name)) {
      throw new ServerError('INVALID_ARG', `metric family '${name}' is one of the server's own; choose another name`)
    }
    const known = this.#families.get(name)
    if (known === undefined) this.#families.set(name, { name, description, kind, series: new Map() })
    else if (known.kind !== kind) {
      throw new ServerError('INVALID_ARG', 'Family name already exists with different type')
    }
  }

  createMetric(familyName: string, labels: ReadonlyMap<string, string>, buckets: readonly number[] | null): number {
    const family = this.#families.get(familyName)
    if (family === undefined) throw new ServerError('NOT_FOUND', `metric family '${familyName}' does not exist`)
    for (const name of labels.keys()) {
      if (!/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name)) {
        throw new ServerError('INVALID_ARG', `Invalid label name: '${name}'`)
      }
    }
    if (family.kind === 'histogram') validateBuckets(buckets)
    const sorted = [...labels].sort(([a], [b]) => (a < b ? -1 : 1))
    const key = JSON.stringify(sorted)
    let series = family.series.get(key)
    if (series === undefined) {
      if (this.#seriesCount === seriesLimit) {
        throw new ServerError('UNAVAILABLE', `models may have at most ${seriesLimit} metrics of their own together`)
      }
      const bounds = family.kind === 'histogram' ? [...(buckets ?? [])] : []
      const counts = bounds.map(() => 0)
      if (family.kind === 'histogram') counts.push(0)
      series = { labels: sorted, value: 0, buckets: bounds, counts, sum: 0, key, family, ownerCount: 0 }
      family.series.set(key, series)
      this.#seriesCount++
    }
    series.ownerCount++
    const metric = this.#nextMetric++
    this.#metrics.set(metric, series)
    return metric
  }

  increment(metric: number, value: number): void {
    const series = this.#find(metric)
    if (series.family.kind === 'histogram') throw unsupported(series, 'Increment')
    if (series.family.kind === 'counter' && !(value >= 0)) {
      throw new ServerError(
        'INVALID_ARG',
        'TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values.',
      )
    }
    series.value += value
  }

  set(metric: number, value: number): void {
    const series = this.#find(metric)
    if (series.family.kind !== 'gauge') throw unsupported(series, 'Set')
    series.value = value
  }

  observe(metric: number, value: number): void {
    const series = this.#find(metric)
    if (series.family.kind !== 'histogram') throw unsupported(series, 'Observe')
    let bucket = 0
    while (bucket < series.buckets.length && value > (series.buckets[bucket] as number)) bucket++
    series.counts[bucket] = (series.counts[bucket] ?? 0) + 1
    series.sum += value
  }

  value(metric: number): number {
    const series = this.#find(metric)
    if (series.family.kind === 'histogram') throw unsupported(series, 'Value')
    return series.value
  }

  remove(metric: number): void {
    const series = this.#metrics.get(metric)
    if (series === undefined) return
    this.#metrics.delete(metric)
    if (--series.ownerCount > 0) return
    series.family.series.delete(series.key)
    this.#seriesCount--
  }

  #find(metric: number): Series {
    const series = this.#metrics.get(metric)
    if (series === undefined) throw new ServerError('NOT_FOUND', 'Could not get metric value. Metric has been deleted.')
    return series
  }
}

function unsupported(series: Series, operation: string): ServerError {
  const kind = `TRITONSERVER_METRIC_KIND_${series.family.kind.toUpperCase()}`
  return new ServerError('UNSUPPORTED', `${kind} does not support ${operation}`)
}

function validateBuckets(buckets: readonly number[] | null): void {
  if (buckets === null) throw new ServerError('INVALID_ARG', 'buckets must be given for a histogram metric')
  for (let i = 1; i < buckets.length; i++) {
    if (!((buckets[i] as number) > (buckets[i - 1] as number))) {
      throw new ServerError('INVALID_ARG', `buckets of a histogram must ascend, got [${buckets.join(', ')}]`)
    }
  }
}
