import type { Log } from '../../base/log.ts'
import { messageOf } from '../../base/server-error.ts'
import type { CustomMetrics } from '../../model/custom-metrics.ts'
import type { MetricMessage } from './worker-protocol.ts'

/** The server's side of the custom metrics of one Worker. They end with the Worker. */
export class WorkerMetrics {
  readonly #metrics: CustomMetrics
  readonly #log: Log
  /** The Worker's number of a series → the server's number. */
  readonly #known = new Map<number, number>()

  constructor(metrics: CustomMetrics, log: Log) {
    this.#metrics = metrics
    this.#log = log
  }

  take(message: MetricMessage): void {
    if (message.kind === 'metric') this.#create(message)
    else {
      const metric = this.#known.get(message.metric)
      // A series that the server refused is not here; the refusal was logged when the model created the series.
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
