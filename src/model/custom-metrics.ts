// Metrics that models make and move themselves, beside the server's own.

export type CustomMetricKind = 'counter' | 'gauge' | 'histogram'

/** Series are named by a number, because models live in other threads and processes. All methods throw ServerError. */
export interface CustomMetrics {
  /** The family of that name; one that exists must be of the same kind. The first description stays. */
  createFamily(name: string, description: string, kind: CustomMetricKind): void
  /** A series; the same labels in the same family are the same series, which lives until each maker removed it. */
  createMetric(family: string, labels: ReadonlyMap<string, string>, buckets: readonly number[] | null): number
  increment(metric: number, value: number): void
  set(metric: number, value: number): void
  observe(metric: number, value: number): void
  value(metric: number): number
  remove(metric: number): void
}
