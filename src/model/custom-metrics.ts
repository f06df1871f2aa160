// Metrics that models create and change themselves, beside the server's own metrics.

export type CustomMetricKind = 'counter' | 'gauge' | 'histogram'

/** A number names each series, because models run in other threads and processes. All methods throw ServerError. */
export interface CustomMetrics {
  /** Creates a family. A family that exists must be of the same kind, and keeps its first description. */
  createFamily(name: string, description: string, kind: CustomMetricKind): void
  /** Returns a series. Equal labels in a family are one series, which lives until each caller has removed it. */
  createMetric(family: string, labels: ReadonlyMap<string, string>, buckets: readonly number[] | null): number
  increment(metric: number, value: number): void
  set(metric: number, value: number): void
  observe(metric: number, value: number): void
  value(metric: number): number
  remove(metric: number): void
}
