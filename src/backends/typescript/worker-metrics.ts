import type { Log } from '../../base/log.ts'
import { messageOf } from '../../base/server-error.ts'
import type { CustomMetrics } from '../../model/custom-metrics.ts'
import type { MetricMessage } from './worker-protocol.ts'

/** The server's side of the metrics that one Worker made: they end with it. */
export class WorkerMetrics {
  readonly #metrics: CustomMetrics
  readonly #log: Log
  /** The Worker's number → the server's. */
  readonly #known = new Map<number, number>()

  constructor(metrics: CustomMetrics, log: Log) {
    this.#metrics = metrics
    this.#log = log
  }

  take(message: MetricMessage): void {
    if (message.kind === 'metric') this.#create(message)
    else {
      const metric = this.#known.get(message.metric)
      // One that the server would not have was told of when it was made.
      if (metric !== undefined) this.#metrics[message.operation](metric, message.value)
    }
  }

  close(): void {
    for (const metric of this.#known.values()) this.#metrics.remove(metric)
    this.#known.clear()
  }

  #create({ metric, name, description, type, labels, buckets }: MetricMessage & { kind: 'metric' }): void {
    try {
      this.#metrics.createFamily(name, description, type)
      this.#known.set(metric, this.#metrics.createMetric(name, labels, buckets))
    } catch (reason) {
      this.#log.error('a metric of the model is not shown', { metric: name, reason: messageOf(reason) })
    }
  }
}
