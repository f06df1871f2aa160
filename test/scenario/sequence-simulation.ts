// Drives the real SequenceScheduler in virtual time and checks after every step what must always hold.

import assert from 'node:assert/strict'
import { ManualClock } from '../fakes/manual-clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import type { Instance } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { emptyModelConfig, type ModelConfig } from '../../src/config/model-config.ts'
import { ModelSignature } from '../../src/config/model-signature.ts'
import { normaliseModelConfig } from '../../src/config/normalise-model-config.ts'
import type { Scheduler } from '../../src/model/scheduler.ts'
import { parseModelConfigText } from '../../src/repository/text-format-reader.ts'
import { SequenceScheduler, type SequenceDependencies } from '../../src/scheduling/sequence-scheduler.ts'
import { sequenceSettings, type SequenceSettings } from '../../src/scheduling/sequence-settings.ts'
import { Tensor } from '../../src/tensor/tensor.ts'
import type { Histories } from './histories.ts'
import { Ledger } from './ledger.ts'
import { Departures, rescaled, SimulatedInstance } from './simulated-instance.ts'

export type SequenceSchedulerMaker = (
  dependencies: SequenceDependencies,
  instances: readonly Instance[],
  settings: SequenceSettings,
) => Scheduler

const realScheduler: SequenceSchedulerMaker = (dependencies, instances, settings) =>
  new SequenceScheduler(dependencies, instances, settings)

const sequenceCount = 8
const maxQueueSize = 12
const mostInstances = 4
const idleUs = 400
const delayUs = 50
const state = 'state { input_name: "S" output_name: "S_OUT" data_type: TYPE_UINT32 dims: 1 }'
const ready = 'control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }'

/** What a model of sequences may look like. */
export const kinds = {
  'direct, one row': { maxBatchSize: 0, batching: '' },
  'direct, empty places marked': { maxBatchSize: 2, batching: ready },
  'direct, waiting for its slots': {
    maxBatchSize: 2,
    batching: `direct { max_queue_delay_microseconds: ${delayUs} minimum_slot_utilization: 1 }`,
  },
  oldest: { maxBatchSize: 2, batching: 'oldest { max_candidate_sequences: 3 }' },
  'oldest, waiting for a preferred size, in order': {
    maxBatchSize: 4,
    batching: `oldest { max_candidate_sequences: 4 preferred_batch_size: 3 preserve_ordering: true
      max_queue_delay_microseconds: ${delayUs} }`,
  },
  iterative: { maxBatchSize: 3, batching: 'iterative_sequence: true oldest { max_candidate_sequences: 4 }' },
  'iterative, direct': { maxBatchSize: 2, batching: `iterative_sequence: true ${ready}` },
} as const
export type KindName = keyof typeof kinds

export type SequenceSetup = { readonly kind: KindName; readonly instanceCount: number }
export type SequenceStep = { readonly do: keyof typeof weights; readonly value: number }

const weights = {
  arrive: 28,
  finish: 24,
  letGo: 4,
  answer: 4,
  fail: 2,
  cancel: 4,
  advance: 8,
  die: 2,
  flip: 2,
  rescale: 1,
  drain: 0,
}

/** One run of START … END, as it was admitted: what the model should have in its state, and where it runs. */
type Life = {
  instance: SequenceInstance | null
  readonly expected: InferenceRequest[]
  /** What a START in the middle of it replaced. */
  readonly before: Life | null
}

class SequenceInstance extends SimulatedInstance {
  /** Of a decoupled model: executed, but not answered. */
  unanswered: InferenceRequest[] = []

  override get isBusy(): boolean {
    return super.isBusy || this.unanswered.some(({ isEnded }) => !isEnded)
  }
}

/** The model: its state is how often it has executed for the sequence. */
function countOf({ inputs }: InferenceRequest): number {
  const { bytes } = inputs.find(({ name }) => name === 'S') as Tensor
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
}

function counted(request: InferenceRequest): Tensor {
  const bytes = new Uint8Array(Uint32Array.of(countOf(request) + 1).buffer)
  const { shape } = request.inputs.find(({ name }) => name === 'S') as Tensor
  return new Tensor('S_OUT', 'UINT32', shape, bytes)
}

const configs = new Map<KindName, { readonly config: ModelConfig; readonly settings: SequenceSettings }>()

function modelOf(kind: KindName): { readonly config: ModelConfig; readonly settings: SequenceSettings } {
  let known = configs.get(kind)
  if (known === undefined) {
    const { maxBatchSize, batching } = kinds[kind]
    const { config: parsed } = parseModelConfigText(`
      name: "m" max_batch_size: ${maxBatchSize}
      sequence_batching { max_sequence_idle_microseconds: ${idleUs} ${state} ${batching} }
    `)
    const config: ModelConfig = { ...emptyModelConfig(), ...parsed }
    normaliseModelConfig(config)
    assert.ok(config.sequenceBatching !== null)
    const options = { maxQueueSize, initialStates: new Map<string, Uint8Array>() }
    known = { config, settings: sequenceSettings(config, config.sequenceBatching, new ModelSignature(config), options) }
    configs.set(kind, known)
  }
  return known
}

export const sequenceSettingsOf = (kind: KindName): SequenceSettings => modelOf(kind).settings

export class SequenceSimulation {
  readonly clock = new ManualClock()
  readonly ledger: Ledger
  readonly scheduler: Scheduler
  readonly departures = new Departures()
  /** Those that take sequences, and those that were taken away and still have some. */
  instances: readonly SequenceInstance[]
  #used: readonly SequenceInstance[]
  readonly #lives = new Map<bigint | string, Life>()
  readonly #lifeOf = new Map<InferenceRequest, Life>()
  /** Open requests that are sequences of their own. */
  readonly #unnamed = new Set<InferenceRequest>()
  readonly #turns: (() => void)[] = []
  readonly #settings: SequenceSettings
  readonly #batchSize: number

  constructor({ kind, instanceCount }: SequenceSetup, make: SequenceSchedulerMaker = realScheduler) {
    const { config, settings } = modelOf(kind)
    this.#settings = settings
    this.#batchSize = config.maxBatchSize > 0 ? 1 : 0
    this.instances = Array.from({ length: instanceCount }, () => this.#createInstance())
    this.#used = this.instances
    const afterThisTurn = (fire: () => void): void => void this.#turns.push(fire)
    this.scheduler = make({ clock: this.clock, afterThisTurn }, this.instances, settings)
    // A request that iterates is not refused when it comes back, whatever has come in the meantime.
    const running = settings.isIterative ? mostInstances * settings.limits.maxBatchSize : 0
    this.ledger = new Ledger(() => this.scheduler, maxQueueSize + running)
  }

  run({ do: action, value }: SequenceStep): void {
    const instance = this.instances[value % this.instances.length] as SequenceInstance
    switch (action) {
      case 'arrive':
        this.#arrive(value)
        break
      case 'finish':
        this.finish(instance, value)
        break
      case 'letGo':
        this.#letGo(instance)
        break
      case 'answer':
        this.#answer(instance)
        break
      case 'fail':
        instance.end((request) => request.fail(new ServerError('INTERNAL', 'failed')))
        break
      case 'cancel':
        this.ledger.requests.at(-1 - (value % 20))?.cancel()
        break
      case 'advance':
        this.clock.advanceUs(value % 300)
        break
      case 'die':
        this.#die(instance)
        break
      case 'flip':
        this.#setReady(instance, !instance.isReady)
        break
      case 'rescale':
        this.#rescale(value)
        break
      case 'drain':
        if (!this.ledger.isDraining) void this.ledger.drain()
    }
    this.endTurn()
  }

  endTurn(): void {
    for (let fire = this.#turns.shift(); fire !== undefined; fire = this.#turns.shift()) fire()
  }

  check(): void {
    this.ledger.check()
    this.#checkNobodyIdles()
  }

  finish(instance: SequenceInstance, value: number): void {
    this.#answer(instance)
    instance.end((request) => {
      const isAgain = this.#settings.isIterative && this.ledger.running.has(request) && value % 3 > 0
      if (!isAgain) request.respond(this.#answerOf(request))
      else {
        this.ledger.rescheduled(request)
        request.reschedule([counted(request)])
      }
    })
  }

  bringBack(): void {
    for (const instance of this.instances) this.#setReady(instance, true)
  }

  send(id: bigint | string, fields: { isSequenceStart: boolean; isSequenceEnd: boolean; timeoutUs: bigint }): void {
    const isUnnamed = id === 0n
    const current = this.#lives.get(id) ?? null
    const known = fields.isSequenceStart || isUnnamed ? null : current
    const life: Life = known ?? { instance: null, expected: [], before: current }
    const index = this.ledger.requests.length
    // Before it is enqueued, as it may run at once.
    life.expected.push({ id: String(index) } as InferenceRequest)
    this.#arriving = life
    const request = this.ledger.enqueue(this.clock.nowNs(), {
      correlationId: id,
      batchSize: this.#batchSize,
      ...fields,
    })
    this.#arriving = null
    life.expected.pop()
    if (request.isEnded) return
    life.expected.push(request)
    this.#lifeOf.set(request, life)
    if (isUnnamed) this.#unnamed.add(request)
    else this.#lives.set(id, life)
  }

  /** Of the request that is being enqueued. */
  #arriving: Life | null = null

  #arrive(value: number): void {
    const timeoutUs = BigInt(value % 7 === 0 ? value % 200 : 0)
    const number = 1 + (value % sequenceCount)
    const isUnnamed = this.#settings.isIterative && value % 4 > 0
    const id = isUnnamed ? 0n : value % 3 === 0 ? `s${number}` : BigInt(number)
    this.send(id, { isSequenceStart: value % 10 < 4, isSequenceEnd: value % 11 === 0, timeoutUs })
  }

  #letGo(instance: SequenceInstance): void {
    const batch = instance.batches.shift()
    if (batch === undefined) return
    instance.unanswered.push(...batch.requests)
    batch.executed()
  }

  #answer(instance: SequenceInstance): void {
    for (const request of instance.unanswered.splice(0)) request.respond(this.#answerOf(request))
  }

  #answerOf(request: InferenceRequest): ReturnType<Ledger['answerTo']> {
    return this.ledger.answerTo(request, [counted(request)])
  }

  #die(instance: SequenceInstance): void {
    this.#setReady(instance, false)
    const died = new ServerError('INTERNAL', 'its worker died')
    for (const request of instance.unanswered.splice(0)) request.fail(died)
    instance.end((request) => request.fail(died))
  }

  #rescale(value: number): void {
    const staying = this.instances.filter(({ hasLeft }) => !hasLeft)
    const used = rescaled(this.#used, value, () => this.#createInstance())
    const all = [...new Set([...used, ...staying])]
    if (all.length > mostInstances) return
    const leaving = this.#used.filter((instance) => !used.includes(instance))
    this.#used = used
    this.instances = all
    this.departures.watch(leaving, this.scheduler.setInstances?.(used))
  }

  #createInstance(): SequenceInstance {
    return new SequenceInstance((instance, batch) => this.#onStart(instance as SequenceInstance, batch))
  }

  #setReady(instance: SequenceInstance, isReady: boolean): void {
    instance.isReady = isReady
    this.scheduler.instancesChanged()
  }

  #onStart(instance: SequenceInstance, { requests, batchSize }: Batch): void {
    const { limits, isOldestFirst } = this.#settings
    assert.ok(requests.length <= limits.maxBatchSize && batchSize === requests.length, 'rows ≤ max')
    const lives = new Set<Life>()
    for (const request of requests) {
      // The scheduler's own fillers belong to nobody.
      if (request.id === '') continue
      const life = this.#lifeOf.get(request) ?? this.#arriving
      assert.ok(life !== null)
      assert.ok(!lives.has(life), 'one request of a sequence at a time')
      lives.add(life)
      this.ledger.started(request)
      this.#checkPlace(request, life, instance)
    }
    assert.ok(lives.size > 0, 'nobody runs empty places alone')
    if (isOldestFirst) assert.equal(lives.size, requests.length, 'fillers are for direct')
  }

  #checkPlace(request: InferenceRequest, life: Life, instance: SequenceInstance): void {
    assert.ok(life.instance === null || life.instance === instance, 'a sequence stays on its instance')
    life.instance = instance
    for (const earlier of life.expected) {
      if (earlier.id === request.id) break
      assert.ok(earlier.isEnded, 'requests of a sequence run in the order in which they came, each after the answer')
    }
    const count = countOf(request)
    if (request.isSequenceStart) assert.equal(count, 0, 'START begins anew')
    // An iteration counts too, so that only sequences of single executions have a bound.
    if (this.#settings.isIterative) return
    assert.ok(count <= life.expected.findIndex(({ id }) => id === request.id), 'state of another sequence')
  }

  /** At most so many sequences hold a slot as have begun and not ended; those that were idle for too long count, too. */
  #hasSlotForAll(): boolean {
    const { slotCount } = this.#settings
    for (const [id, { expected }] of this.#lives) {
      const last = expected.at(-1)
      if (last?.isEnded === true && last.isSequenceEnd) this.#lives.delete(id)
    }
    for (const request of this.#unnamed) if (request.isEnded) this.#unnamed.delete(request)
    // A sequence that was called off holds its slot until what runs of it has ended.
    const current = new Set(this.#lives.values())
    let leavingCount = 0
    for (const request of this.ledger.running) {
      if (!current.has(this.#lifeOf.get(request) as Life) && !this.#unnamed.has(request)) leavingCount++
    }
    return this.#lives.size + this.#unnamed.size + leavingCount <= slotCount * this.#used.length
  }

  /** An idle instance with eligible work is a bug; with a delay, once it is over. */
  #checkNobodyIdles(): void {
    const { limits } = this.#settings
    const nowNs = this.clock.nowNs()
    const isWaiting = limits.delayNs > 0 && !this.ledger.isDraining
    const mustRun = this.#hasSlotForAll() && this.instances.every((each) => each.isReady && each.batch === null)
    for (const request of this.ledger.waiting) {
      const enqueuedNs = this.ledger.enqueuedNs.get(request) as number
      if (isWaiting && nowNs < enqueuedNs + limits.delayNs) continue
      const life = this.#lifeOf.get(request) as Life
      const { instance } = life
      if (instance === null ? !mustRun : !instance.isReady || instance.batch !== null) continue
      // Only the first that is open may run, and only when those before have their answers.
      if (life.before?.expected.some(({ isEnded }) => !isEnded) === true) continue
      assert.notEqual(
        life.expected.find(({ isEnded }) => !isEnded),
        request,
        'an idle instance with eligible work',
      )
    }
  }
}

/** Histories of the scheduler that `make` makes. */
export const sequenceHistories = (
  kindNames: readonly KindName[],
  make: SequenceSchedulerMaker = realScheduler,
): Histories<SequenceSetup, SequenceStep> => ({
  longest: 150,
  setup: (random) => ({ kind: random.pick(kindNames), instanceCount: 1 + random.int(2) }),
  step: (random) => ({ do: random.oneIn(300) ? 'drain' : random.weighted(weights), value: random.int(10_000) }),
  live: async (setup, steps) => {
    const simulation = new SequenceSimulation(setup, make)
    const { ledger, departures } = simulation
    for (const step of steps) {
      simulation.run(step)
      simulation.check()
      if (departures.isAwaited) await departures.turn()
    }
    const drained = ledger.isDraining ? Promise.resolve() : ledger.drain()
    simulation.bringBack()
    simulation.endTurn()
    for (let round = 0; ledger.openCount > 0; round++) {
      assert.ok(round < 500, 'everything admitted ends')
      for (const instance of simulation.instances) simulation.finish(instance, 0)
      simulation.endTurn()
      simulation.check()
    }
    await drained
    await departures.turn()
    assert.ok(!departures.isAwaited, 'who was taken away has left after the last sequence')
    assert.ok(ledger.isDrained, 'a drain ends with the last request')
    assert.equal(simulation.clock.pendingCount, 0, 'no timer is left')
  },
})
