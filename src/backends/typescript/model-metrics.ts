// Custom metrics of a model, inside its Worker. Their changes go to the server together with the answers.

import type { MetricMessage } from './worker-protocol.ts'

export type MetricLabels = Readonly<Record<string, string>>

export type Counter = {
  /** Adds `by`, which must not be negative; 1 when it is left out. */
  increment(by?: number): void
}

export type Gauge = {
  set(value: number): void
  /** Adds `by`, which may be negative; 1 when it is left out. */
  increment(by?: number): void
}

export type Histogram = { observe(value: number): void }

/** Equal names are one family, and equal labels in a family are one series, also across models and instances. */
export type ModelMetrics = {
  counter(name: string, description: string, labels?: MetricLabels): Counter
  gauge(name: string, description: string, labels?: MetricLabels): Gauge
  /** `buckets`: upper bounds, ascending. */
  histogram(name: string, description: string, buckets: readonly number[], labels?: MetricLabels): Histogram
}

export function createMetrics(post: (message: MetricMessage) => void): ModelMetrics {
  let count = 0
  const create = (
    name: string,
    description: string,
    type: 'counter' | 'gauge' | 'histogram',
    labels: MetricLabels,
    buckets: readonly number[] | null,
  ): number => {
    const metric = ++count
    post({ kind: 'metric', metric, name, description, type, labels: new Map(Object.entries(labels)), buckets })
    return metric
  }
  const move =
    (metric: number, operation: 'increment' | 'set' | 'observe', least = -Infinity) =>
    (value = 1): void => {
      if (typeof value !== 'number' || !(value >= least)) {
        throw new TypeError(`a metric takes a number${least === 0 ? ' of 0 or more' : ''}, got ${String(value)}`)
      }
      post({ kind: 'measured', metric, operation, value })
    }
  return {
    counter: (name, description, labels = {}) => {
      const metric = create(name, description, 'counter', labels, null)
      return { increment: move(metric, 'increment', 0) }
    },
    gauge: (name, description, labels = {}) => {
      const metric = create(name, description, 'gauge', labels, null)
      return { set: move(metric, 'set'), increment: move(metric, 'increment') }
    },
    histogram: (name, description, buckets, labels = {}) => {
      const metric = create(name, description, 'histogram', labels, [...buckets])
      return { observe: move(metric, 'observe') }
    },
  }
}
