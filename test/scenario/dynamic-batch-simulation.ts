// Drives the real DynamicBatchScheduler in virtual time and checks after every step what must always hold.

import assert from 'node:assert/strict'
import { ManualClock } from '../../src/base/clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import type { Instance } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { DynamicBatchScheduler, type DynamicBatchDependencies } from '../../src/scheduling/dynamic-batch-scheduler.ts'
import type { DynamicBatchSettings } from '../../src/scheduling/dynamic-batch-settings.ts'
import type { Scheduler } from '../../src/model/scheduler.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import type { Arrival, ReferenceSettings } from './dynamic-batch-reference.ts'

export type SchedulerMaker = (
  dependencies: DynamicBatchDependencies,
  instances: readonly Instance[],
  settings: DynamicBatchSettings,
) => Scheduler

const realScheduler: SchedulerMaker = (dependencies, instances, settings) =>
  new DynamicBatchScheduler(dependencies, instances, settings)

class SimulatedInstance implements Instance {
  readonly name = 'simulated'
  isReady = true
  batch: Batch | null = null
  readonly #onStart: (instance: SimulatedInstance, batch: Batch) => void

  constructor(onStart: (instance: SimulatedInstance, batch: Batch) => void) {
    this.#onStart = onStart
  }
  execute(batch: Batch): void {
    assert.ok(this.isReady, 'only a ready instance is given work')
    assert.equal(this.batch, null, 'one batch at a time')
    this.batch = batch
    this.#onStart(this, batch)
  }
  /** Each request gets its own id back: an answer that strays is seen. */
  finish(error: ServerError | null): void {
    const batch = this.batch as Batch
    this.batch = null
    for (const request of batch.requests) {
      const bytes = Buffer.from(request.id)
      const outputs = [new Tensor('ID', 'UINT8', [bytes.length], bytes)]
      if (error === null) request.respond(InferenceResponse.of(outputs))
      else request.fail(error)
    }
    batch.executed()
  }
  close(): Promise<void> {
    return Promise.resolve()
  }
}

const settingsOf = (from: ReferenceSettings): DynamicBatchSettings => ({
  limits: {
    maxBatchSize: from.maxBatchSize,
    preferredBatchSizes: new Set(from.preferred),
    largestPreferredBatchSize: from.preferred.length === 0 ? from.maxBatchSize : Math.max(...from.preferred),
    maxQueueDelayNs: from.delayUs * 1000,
    canJoin: (first, next) => first.parameters.get('kind') === next.parameters.get('kind'),
  },
  queue: {
    priorityLevels: BigInt(from.levels),
    defaultPriorityLevel: BigInt(from.defaultLevel),
    defaultPolicy:
      from.policy === null
        ? null
        : {
            timeoutAction: from.policy.action,
            defaultTimeoutNs: from.policy.timeoutUs * 1000,
            allowsTimeoutOverride: from.policy.allowsOverride,
            maxQueueSize: from.policy.maxQueueSize === 0 ? Infinity : from.policy.maxQueueSize,
          },
    policyByLevel: new Map(),
    defaultMaxQueueSize: from.defaultBound,
  },
  preservesOrder: from.preservesOrder,
})

export class Simulation {
  readonly log: string[] = []
  readonly clock = new ManualClock()
  readonly scheduler: Scheduler
  readonly running: SimulatedInstance[] = []
  readonly instances: readonly SimulatedInstance[]
  readonly #settings: ReferenceSettings
  readonly #turns: (() => void)[] = []
  readonly #requests: InferenceRequest[] = []
  readonly #ends = new Map<InferenceRequest, number>()
  readonly #queued = new Set<InferenceRequest>()
  readonly #enqueuedUs = new Map<InferenceRequest, number>()
  readonly #started: InferenceRequest[] = []
  /** Room is made before a request joins the queue: until then it is not behind or before anybody. */
  #arriving: InferenceRequest | null = null
  isDrained = false

  constructor(settings: ReferenceSettings, make: SchedulerMaker = realScheduler) {
    this.#settings = settings
    this.instances = Array.from(
      { length: settings.instanceCount },
      () => new SimulatedInstance((instance, batch) => this.#onStart(instance, batch)),
    )
    const afterThisTurn = (fire: () => void): void => void this.#turns.push(fire)
    this.scheduler = make({ clock: this.clock, afterThisTurn }, this.instances, settingsOf(settings))
  }

  arrive(id: number, arrival: Arrival): void {
    const request = new InferenceRequest({
      modelName: 'm',
      id: String(id),
      inputs: [],
      priority: BigInt(arrival.priority),
      timeoutUs: BigInt(arrival.timeoutUs),
      parameters: new Map([['kind', BigInt(arrival.kind)]]),
      sink: (response, ended) => this.#onEnd(response, ended),
    })
    request.batchSize = arrival.rows
    this.#requests.push(request)
    this.#queued.add(request)
    this.#enqueuedUs.set(request, this.clock.nowNs() / 1000)
    this.#arriving = request
    this.scheduler.enqueue(request)
    this.#arriving = null
  }

  cancel(id: number): void {
    this.#requests[id]?.cancel()
  }

  finish(position: number, error: ServerError | null): void {
    const [instance] = this.running.splice(position, 1)
    if (instance === undefined) return
    instance.finish(error)
  }

  drain(): void {
    void this.scheduler.drain().then(() => (this.isDrained = true))
  }

  /** The turn of the event loop ends. */
  endTurn(): void {
    for (let fire = this.#turns.shift(); fire !== undefined; fire = this.#turns.shift()) fire()
  }

  get requestCount(): number {
    return this.#requests.length
  }

  get endedCount(): number {
    return this.#ends.size
  }

  /** What must hold whenever a turn has ended. */
  check(): void {
    const running = this.running.reduce((sum, { batch }) => sum + (batch as Batch).requests.length, 0)
    const waiting = [...this.#queued].filter((request) => !request.isEnded)
    assert.equal(this.scheduler.pendingCount, waiting.length, 'what waits is in the queue')
    const open = this.#requests.filter((request) => !request.isEnded).length
    assert.equal(open, waiting.length + running, 'every request is somewhere')
    for (const count of this.#ends.values()) assert.equal(count, 1, 'a request ends once')
    const { policy, defaultBound, levels } = this.#settings
    const bound = policy !== null && policy.maxQueueSize > 0 ? policy.maxQueueSize * Math.max(1, levels) : defaultBound
    assert.ok(waiting.length <= bound, 'the queue keeps its bound')
    this.#checkNobodyIdles(waiting)
  }

  #checkNobodyIdles(waiting: readonly InferenceRequest[]): void {
    if (!this.instances.some(({ isReady, batch }) => isReady && batch === null)) return
    const nowUs = this.clock.nowNs() / 1000
    for (const request of waiting) {
      const waitedUs = nowUs - (this.#enqueuedUs.get(request) as number)
      assert.ok(waitedUs < this.#settings.delayUs, 'no request waits past the delay while an instance is idle')
    }
    const rows = waiting.reduce((sum, request) => sum + request.batchSize, 0)
    assert.ok(rows < this.#settings.maxBatchSize, 'no full batch waits while an instance is idle')
  }

  #onStart(instance: SimulatedInstance, batch: Batch): void {
    const { requests, batchSize } = batch
    let rows = 0
    for (const request of requests) {
      rows += request.batchSize
      assert.ok(this.#queued.delete(request), 'a request runs once')
      assert.ok(!request.isCancelled && !request.isEnded, 'what left the queue never runs')
    }
    assert.equal(batchSize, rows)
    assert.ok(rows <= this.#settings.maxBatchSize, 'a batch keeps the largest size')
    assert.equal(new Set(requests.map((request) => request.parameters.get('kind'))).size, 1, 'shapes agree')
    this.#checkOrder(requests)
    this.#started.push(...requests)
    this.running.push(instance)
    this.log.push(`run ${requests.map((request) => request.id).join('+')}`)
  }

  /** First in, first out within a priority, and nobody of a lower priority first; DELAY is the exception by design. */
  #checkOrder(requests: readonly InferenceRequest[]): void {
    if (this.#settings.policy?.action === 'DELAY') return
    const rank = ({ priority }: InferenceRequest): number => {
      const { levels, defaultLevel } = this.#settings
      return priority < 1n || priority > BigInt(levels) ? defaultLevel : Number(priority)
    }
    for (const request of requests) {
      for (const other of this.#queued) {
        if (requests.includes(other) || other.isEnded || other === this.#arriving) continue
        assert.ok(rank(request) <= rank(other), 'a higher priority goes first')
        if (rank(request) === rank(other)) assert.ok(Number(request.id) < Number(other.id), 'first in, first out')
      }
    }
  }

  #onEnd(response: InferenceResponse, request: InferenceRequest): void {
    this.#ends.set(request, (this.#ends.get(request) ?? 0) + 1)
    const { error } = response
    this.log.push(`end ${request.id} ${error === null ? 'ok' : error.code}`)
    if (error !== null) return
    assert.equal(Buffer.from(response.outputs[0]?.bytes ?? []).toString(), request.id, 'answers go to their owner')
  }
}
