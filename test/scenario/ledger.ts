// What must hold for every scheduler, whatever it schedules: kept beside it, and compared after every step.

import assert from 'node:assert/strict'
import { InferenceRequest, type InferenceRequestFields } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import type { Scheduler } from '../../src/model/scheduler.ts'
import { Tensor } from '../../src/tensor/tensor.ts'

export class Ledger {
  readonly requests: InferenceRequest[] = []
  /** Admitted and neither running nor ended, in order of arrival. */
  readonly waiting = new Set<InferenceRequest>()
  readonly running = new Set<InferenceRequest>()
  readonly enqueuedNs = new Map<InferenceRequest, number>()
  readonly #scheduler: () => Scheduler
  readonly #bound: number
  #endedCount = 0
  #isDraining = false
  isDrained = false

  constructor(scheduler: () => Scheduler, bound: number) {
    this.#scheduler = scheduler
    this.#bound = bound
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  get openCount(): number {
    return this.waiting.size + this.running.size
  }

  indexOf(request: InferenceRequest): number {
    return Number(request.id)
  }

  /** Enqueues a new request; false when it was refused at once. */
  enqueue(nowNs: number, fields: Partial<InferenceRequestFields> & { batchSize?: number } = {}): InferenceRequest {
    const { batchSize = 0, ...rest } = fields
    const request = new InferenceRequest({
      modelName: 'm',
      id: String(this.requests.length),
      inputs: [],
      sink: (response, ended) => this.#onResponse(response, ended),
      ...rest,
    })
    request.batchSize = batchSize
    this.requests.push(request)
    this.waiting.add(request)
    this.enqueuedNs.set(request, nowNs)
    this.#scheduler().enqueue(request)
    if (this.#isDraining) assert.ok(request.isEnded, 'nothing is admitted after drain')
    return request
  }

  /** An instance begins with it. */
  started(request: InferenceRequest): void {
    assert.ok(!request.isEnded && !request.isCancelled, 'what left the queue never runs')
    assert.ok(this.waiting.delete(request), 'what runs was waiting')
    this.running.add(request)
  }

  /** The model wants it again. */
  rescheduled(request: InferenceRequest): void {
    assert.ok(this.running.delete(request))
    this.waiting.add(request)
  }

  /** Each request gets its own id back: an answer that strays is seen. */
  answerTo(request: InferenceRequest, more: readonly Tensor[] = []): InferenceResponse {
    return InferenceResponse.of([new Tensor('OWNER', 'BYTES', [1], Buffer.from(request.id)), ...more])
  }

  drain(): Promise<void> {
    this.#isDraining = true
    return this.#scheduler()
      .drain()
      .then(() => {
        this.isDrained = true
        assert.equal(this.openCount, 0, 'drained means that everything has ended')
      })
  }

  /** After every step. */
  check(): void {
    assert.equal(this.requests.length, this.#endedCount + this.openCount, 'every request is somewhere')
    const { pendingCount } = this.#scheduler()
    assert.equal(pendingCount, this.#waitingCount(), 'what waits is in the queue')
    assert.ok(pendingCount <= this.#bound, 'queue ≤ bound')
  }

  /** An answer may be held back until those before it have theirs: such a request has ended, and waits no more. */
  #waitingCount(): number {
    let count = 0
    for (const { isEnded } of this.waiting) if (!isEnded) count++
    return count
  }

  #onResponse(response: InferenceResponse, request: InferenceRequest): void {
    if (response.error === null && !response.isFlagOnly) {
      const owner = response.outputs.find(({ name }) => name === 'OWNER')
      assert.equal(Buffer.from(owner?.bytes ?? []).toString(), request.id, 'answers go to their owner')
    }
    if (!response.isFinal) return
    const wasWaiting = this.waiting.delete(request)
    const wasRunning = this.running.delete(request)
    assert.ok(wasWaiting || wasRunning, 'a request ends once')
    assert.ok(!wasWaiting || response.error !== null, 'only what ran has an answer')
    this.#endedCount++
  }
}
