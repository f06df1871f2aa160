// Prepares the next batch while every Instance is busy. Its requests stay in the queue, where they may still expire, be
// cancelled or be overtaken. The prepared batch is used only when the next batch has exactly the same requests.

import type { Instance } from '../model/backend.ts'
import type { PreparedBatch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import { planBatch, type BatchLimits, type Waiting, type WaitingLine } from './plan-batch.ts'

export class BatchPrefetch {
  #requests: readonly InferenceRequest[] = []
  #result: PreparedBatch | null = null

  get isEmpty(): boolean {
    return this.#result === null
  }

  /** Prepares only a batch that would run now: any other may grow until an Instance takes it. */
  make<T extends Waiting>(line: WaitingLine<T>, limits: BatchLimits, nowNs: number, instance: Instance): void {
    const plan = planBatch(line, limits, nowNs, 0)
    if (plan.kind !== 'run') return
    const requests: InferenceRequest[] = []
    for (let waiting = line.first(); waiting !== null && requests.length < plan.requestCount;) {
      requests.push(waiting.request)
      waiting = line.after(waiting)
    }
    this.#result = instance.prepare?.(requests) ?? null
    this.#requests = requests
  }

  /** The prepared batch of exactly these requests. Null: there is none. One of other requests is dropped. */
  take(requests: readonly InferenceRequest[]): PreparedBatch | null {
    const made = this.#requests
    const result = this.#result
    if (result === null) return null
    this.#result = null
    this.#requests = []
    if (made.length === requests.length && made.every((request, i) => request === requests[i])) return result
    result.drop()
    return null
  }
}
