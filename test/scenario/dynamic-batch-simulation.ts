// Drives the real DynamicBatchScheduler in virtual time and checks after every step what must always hold.

import assert from 'node:assert/strict'
import { ManualClock } from '../fakes/manual-clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import type { Instance } from '../../src/model/backend.ts'
import type { BatchPadding } from '../../src/config/batch-padding.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import { emptyModelConfig } from '../../src/config/model-config.ts'
import { ModelSignature } from '../../src/config/model-signature.ts'
import { joinRule } from '../../src/scheduling/join-rule.ts'
import { DynamicBatchScheduler, type DynamicBatchDependencies } from '../../src/scheduling/dynamic-batch-scheduler.ts'
import type { DynamicBatchSettings } from '../../src/scheduling/dynamic-batch-settings.ts'
import type { Scheduler } from '../../src/model/scheduler.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import type { Arrival, ReferenceSettings } from './dynamic-batch-reference.ts'
import { Departures, SimulatedInstance } from './simulated-instance.ts'

export type SchedulerMaker = (
  dependencies: DynamicBatchDependencies,
  instances: readonly Instance[],
  settings: DynamicBatchSettings,
) => Scheduler

const realScheduler: SchedulerMaker = (dependencies, instances, settings) =>
  new DynamicBatchScheduler(dependencies, instances, settings)

const settingsOf = (from: ReferenceSettings): DynamicBatchSettings => ({
  limits: {
    maxBatchSize: from.maxBatchSize,
    preferredBatchSizes: new Set(from.preferred),
    largestPreferredBatchSize: from.preferred.length === 0 ? from.maxBatchSize : Math.max(...from.preferred),
    maxQueueDelayNs: from.delayUs * 1000,
    canJoin: joinRule(signature, { padding: paddingOf(from) }),
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
  padding: paddingOf(from),
  runsFailedAlone: true,
})

/** The output `X` is the input `X`, as long as it was padded. */
const paddingOf = ({ buckets }: ReferenceSettings): BatchPadding | null =>
  buckets === null
    ? null
    : {
        inputs: [{ name: 'X', dataType: 'UINT8', axis: 1, fill: Uint8Array.of(filler), buckets }],
        outputs: [{ name: 'X', axis: 1, input: 'X' }],
      }
const filler = 99

const signature = new ModelSignature({
  ...emptyModelConfig(),
  maxBatchSize: 8,
  input: ['X', 'RAGGED', 'OPTIONAL'].map((name) => ({
    name,
    dataType: 'TYPE_UINT8',
    format: 'FORMAT_NONE',
    dims: name === 'OPTIONAL' ? [1] : [-1],
    reshape: null,
    isShapeTensor: false,
    allowRaggedBatch: name === 'RAGGED',
    optional: name === 'OPTIONAL',
    isNonLinearFormatIo: false,
  })),
})

const inputsOf = ({ rows, length, raggedLength, hasOptional }: Arrival, id: number): Tensor[] => {
  const tensor = (name: string, size: number): Tensor =>
    new Tensor(name, 'UINT8', [rows, size], new Uint8Array(rows * size).fill(id % filler))
  const optional = hasOptional ? [tensor('OPTIONAL', 1)] : []
  return [tensor('X', length), tensor('RAGGED', raggedLength), ...optional]
}

const inputNamed = (request: InferenceRequest, name: string): Tensor | undefined =>
  request.inputs.find((input) => input.name === name)

export class Simulation {
  readonly log: string[] = []
  readonly clock = new ManualClock()
  readonly scheduler: Scheduler
  readonly running: SimulatedInstance[] = []
  readonly departures = new Departures()
  /** All that there ever were: the history names one by its place. */
  readonly instances: SimulatedInstance[]
  #used: readonly SimulatedInstance[]
  readonly #settings: ReferenceSettings
  readonly #turns: (() => void)[] = []
  readonly #requests: InferenceRequest[] = []
  readonly #ends = new Map<InferenceRequest, number>()
  readonly #queued = new Set<InferenceRequest>()
  readonly #enqueuedUs = new Map<InferenceRequest, number>()
  readonly #lengths = new Map<InferenceRequest, number>()
  readonly #started: InferenceRequest[] = []
  /** Their batch failed: they are to run once more, each alone. */
  readonly #again = new Set<InferenceRequest>()
  /** Room is made before a request joins the queue: until then it is not behind or before anybody. */
  #arriving: InferenceRequest | null = null
  isDrained = false

  constructor(settings: ReferenceSettings, make: SchedulerMaker = realScheduler) {
    this.#settings = settings
    this.instances = Array.from({ length: settings.instanceCount }, () => this.#createInstance())
    this.#used = this.instances
    const afterThisTurn = (fire: () => void): void => void this.#turns.push(fire)
    this.scheduler = make({ clock: this.clock, afterThisTurn }, this.instances, settingsOf(settings))
  }

  arrive(id: number, arrival: Arrival): void {
    const request = new InferenceRequest({
      modelName: 'm',
      id: String(id),
      inputs: inputsOf(arrival, id),
      priority: BigInt(arrival.priority),
      timeoutUs: BigInt(arrival.timeoutUs),
      sink: (response, ended) => this.#onEnd(response, ended),
    })
    request.batchSize = arrival.rows
    this.#requests.push(request)
    this.#lengths.set(request, arrival.length)
    this.#queued.add(request)
    this.#enqueuedUs.set(request, this.clock.nowNs() / 1000)
    this.#arriving = request
    this.scheduler.enqueue(request)
    this.#arriving = null
  }

  cancel(id: number): void {
    this.#requests[id]?.cancel()
  }

  /** `isDeath`: the worker is gone, and no request that it had runs again. */
  finish(position: number, error: ServerError | null, isDeath = false): void {
    const [instance] = this.running.splice(position, 1)
    const requests = instance?.batch?.requests ?? []
    if (error !== null && !isDeath && requests.length > 1) for (const request of requests) this.#again.add(request)
    // Each request gets its own id back: an answer that strays is seen. So is its input, as the instance got it.
    instance?.end((request) => {
      const bytes = Buffer.from(request.id)
      const outputs = [new Tensor('ID', 'UINT8', [bytes.length], bytes), inputNamed(request, 'X') as Tensor]
      if (isDeath) request.lend(null)
      if (error === null) request.respond(InferenceResponse.of(outputs))
      else request.fail(error)
    })
  }

  /** These take requests from now on, those that `instances` does not have yet as new ones. */
  setInstances(places: readonly number[]): void {
    for (const place of places) this.instances[place] ??= this.#createInstance()
    const used = places.map((place) => this.instances[place] as SimulatedInstance)
    const leaving = this.#used.filter((instance) => !used.includes(instance))
    this.#used = used
    this.departures.watch(leaving, this.scheduler.setInstances?.(used))
  }

  #createInstance(): SimulatedInstance {
    return new SimulatedInstance((instance, batch) => this.#onStart(instance, batch))
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
    const waiting = [...this.#queued, ...this.#again].filter((request) => !request.isEnded)
    assert.equal(this.scheduler.pendingCount, waiting.length, 'what waits is in the queue')
    const open = this.#requests.filter((request) => !request.isEnded).length
    assert.equal(open, waiting.length + running, 'every request is somewhere')
    for (const count of this.#ends.values()) assert.equal(count, 1, 'a request ends once')
    const { policy, defaultBound, levels } = this.#settings
    const bound = policy !== null && policy.maxQueueSize > 0 ? policy.maxQueueSize * Math.max(1, levels) : defaultBound
    const againCount = [...this.#again].filter((request) => !request.isEnded).length
    assert.ok(waiting.length - againCount <= bound, 'the queue keeps its bound')
    const most = this.instances.length * this.#settings.maxBatchSize
    assert.ok(againCount <= most, 'no batch begins while requests of one that failed wait')
    this.#checkNobodyIdles(waiting)
  }

  #checkNobodyIdles(waiting: readonly InferenceRequest[]): void {
    if (!this.#used.some(({ isReady, batch }) => isReady && batch === null)) return
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
    assert.ok(this.#used.includes(instance), 'one that is leaving is given nothing')
    let rows = 0
    const isAgain = requests.some((request) => this.#again.has(request))
    assert.ok(!isAgain || requests.length === 1, 'what failed with others runs alone')
    for (const request of requests) {
      rows += request.batchSize
      assert.ok((isAgain ? this.#again : this.#queued).delete(request), 'a request runs once, or once more alone')
      assert.ok(!request.isCancelled && !request.isEnded, 'what left the queue never runs')
    }
    assert.equal(batchSize, rows)
    assert.ok(rows <= this.#settings.maxBatchSize, 'a batch keeps the largest size')
    assert.equal(new Set(requests.map((request) => inputNamed(request, 'X')?.shape[1])).size, 1, 'shapes agree')
    assert.equal(new Set(requests.map((request) => request.inputs.length)).size, 1, 'the same inputs are there')
    if (!isAgain) {
      const left = [...this.#again].filter((request) => !request.isEnded)
      assert.equal(left.length, 0, 'those that began go before those that wait')
      this.#checkOrder(requests)
    }
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
    const [, back] = response.outputs
    assert.deepEqual(back?.shape, [request.batchSize, this.#lengths.get(request)], 'outputs are cut back')
    assert.ok(
      back?.bytes.every((byte) => byte === Number(request.id) % filler),
      'nothing of the filling comes back',
    )
  }
}
