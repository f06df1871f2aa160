// The rate limiter between several models, direct ones, batching ones and ones of sequences, under random arrivals,
// finishes, deaths, cancellations and changes of the number of instances.

import assert from 'node:assert/strict'
import { ManualClock } from '../fakes/manual-clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import type { Instance } from '../../src/model/backend.ts'
import type { Batch } from '../../src/model/batch.ts'
import type { Scheduler } from '../../src/model/scheduler.ts'
import { DirectScheduler } from '../../src/scheduling/direct-scheduler.ts'
import { DynamicBatchScheduler } from '../../src/scheduling/dynamic-batch-scheduler.ts'
import { RateLimiter, type InstanceClaim, type LimitedInstance } from '../../src/scheduling/rate-limiter.ts'
import { SequenceScheduler } from '../../src/scheduling/sequence-scheduler.ts'
import { batchSettingsOf } from './batch-settings.ts'
import { testHistories, testIsFoundOut, type Histories } from './histories.ts'
import { Ledger } from './ledger.ts'
import type { Random } from './random.ts'
import { sequenceSettingsOf } from './sequence-simulation.ts'
import { SimulatedInstance } from './simulated-instance.ts'

type ModelKind = 'direct' | 'dynamic' | 'sequences'
type ModelSetup = { readonly kind: ModelKind; readonly claims: readonly InstanceClaim[] }
type Setup = { readonly models: readonly ModelSetup[]; readonly given: readonly (readonly [string, number])[] | null }
type Step = { readonly do: keyof typeof weights; readonly value: number }
const weights = { arrive: 20, finish: 18, cancel: 3, die: 2, flip: 2, rescale: 1, drain: 0 }

class ClaimingInstance extends SimulatedInstance {
  readonly demand: InstanceClaim
  limited: LimitedInstance | null = null

  constructor(demand: InstanceClaim, onStart: (instance: SimulatedInstance, batch: Batch) => void) {
    super(onStart)
    this.demand = demand
  }
}

type SimulatedModel = {
  readonly scheduler: Scheduler
  readonly ledger: Ledger
  readonly instances: readonly ClaimingInstance[]
  /** Those of them that take work. */
  used: readonly ClaimingInstance[]
  readonly isOfSequences: boolean
}

const bound = 6

type LimiterMaker = (given: ReadonlyMap<string, number> | null) => RateLimiter

class Simulation {
  readonly clock = new ManualClock()
  readonly models: readonly SimulatedModel[]
  readonly instances: readonly ClaimingInstance[]
  readonly #capacity = new Map<string, number>()

  constructor({ models, given }: Setup, make: LimiterMaker) {
    const limiter = make(given === null ? null : new Map(given))
    for (const { claims } of models) for (const claim of claims) this.#addCapacity(claim, given)
    this.models = models.map((model) => this.#createModel(model, limiter))
    this.instances = this.models.flatMap(({ instances }) => instances)
  }

  run({ do: action, value }: Step): void {
    const model = this.models[value % this.models.length] as SimulatedModel
    const instance = this.instances[value % this.instances.length] as ClaimingInstance
    if (action === 'arrive') this.#arrive(model, value)
    else if (action === 'finish') this.finish(instance)
    else if (action === 'cancel') model.ledger.requests.at(-1 - (value % 9))?.cancel()
    else if (action === 'die') {
      this.setReady(instance, false)
      instance.end((request) => request.fail(new ServerError('INTERNAL', 'its worker died')))
    } else if (action === 'flip') this.setReady(instance, !instance.isReady)
    else if (action === 'rescale') this.#rescale(model, model.instances.slice(0, 1 + (value % model.instances.length)))
    else if (!model.ledger.isDraining) void model.ledger.drain()
  }

  finish(instance: ClaimingInstance): void {
    const { ledger } = this.#modelOf(instance)
    instance.end((request) => request.respond(ledger.answerTo(request)))
  }

  setReady(instance: ClaimingInstance, isReady: boolean): void {
    instance.isReady = isReady
    this.#modelOf(instance).scheduler.instancesChanged()
  }

  check(): void {
    for (const { ledger } of this.models) ledger.check()
    for (const [key, used] of this.#used())
      assert.ok(used <= (this.#capacity.get(key) ?? 0), `'${key}' in use ≤ capacity`)
    this.#checkNobodyIdles()
  }

  /**
   * One that could run waits only behind one that shares a resource, has run less and has work of its own that must wait:
   * for want of room, or behind a third in the same way. What has no work, or cannot run, holds nobody back.
   */
  #checkNobodyIdles(): void {
    const used = this.#used()
    const held: LimitedInstance[] = []
    const candidates = this.models
      .filter(({ ledger }) => ledger.waiting.size > 0)
      .flatMap(({ used: inUse, instances, isOfSequences }) =>
        // One that was taken away still ends the sequences that are bound to it.
        (isOfSequences ? instances : inUse).map((instance) => ({ instance, isOfSequences })),
      )
      .filter(({ instance: { isReady, batch, limited } }) => isReady && batch === null && limited !== null)
      .map(({ instance, isOfSequences }) => ({ limited: instance.limited as LimitedInstance, isOfSequences }))
      .sort((a, b) => a.limited.share - b.limited.share)
    for (const { limited, isOfSequences } of candidates) {
      const isBehind = held.some((other) => other.share < limited.share && shareKeys(other, limited))
      if (isBehind || !this.#hasRoom(limited, used)) held.push(limited)
      // A sequence waits for its own instance, and so another of the same model may have nothing to do.
      else assert.ok(isOfSequences, 'an idle instance with eligible work and room')
    }
  }

  #hasRoom({ needs }: LimitedInstance, used: ReadonlyMap<string, number>): boolean {
    for (const [key, count] of needs) {
      if ((used.get(key) ?? 0) + count > (this.#capacity.get(key) ?? 0)) return false
    }
    return true
  }

  #used(): Map<string, number> {
    const used = new Map<string, number>()
    for (const { batch, limited } of this.instances) {
      if (batch === null) continue
      for (const [key, count] of limited?.needs ?? []) used.set(key, (used.get(key) ?? 0) + count)
    }
    return used
  }

  #addCapacity({ resources, deviceId }: InstanceClaim, given: Setup['given']): void {
    const sums = new Map<string, number>()
    for (const { name, count, isGlobal } of resources) {
      const key = `${isGlobal ? '' : deviceId}:${name}`
      sums.set(key, (sums.get(key) ?? 0) + count)
    }
    for (const [key, count] of sums) {
      const fixed = given === null ? undefined : new Map(given).get(key.slice(key.indexOf(':') + 1))
      this.#capacity.set(key, fixed ?? Math.max(this.#capacity.get(key) ?? 0, count))
    }
  }

  #createModel({ claims, kind }: ModelSetup, limiter: RateLimiter): SimulatedModel {
    const onStart = (_: SimulatedInstance, { requests }: Batch): void => {
      for (const request of requests) if (request.id !== '') ledger.started(request)
    }
    const instances = claims.map((claim) => new ClaimingInstance(claim, onStart))
    for (const instance of instances) instance.limited = limiter.limit(instance, instance.demand)
    const limited = instances.map((instance) => instance.limited as LimitedInstance)
    const afterThisTurn = (fire: () => void): void => queueMicrotask(fire)
    const { clock } = this
    const makers: Readonly<Record<ModelKind, () => Scheduler>> = {
      direct: () => new DirectScheduler({ clock }, limited, { maxQueueSize: bound }),
      dynamic: () => new DynamicBatchScheduler({ clock, afterThisTurn }, limited, batchSettingsOf(bound)),
      sequences: () => new SequenceScheduler({ clock, afterThisTurn }, limited, sequenceSettingsOf('oldest')),
    }
    const scheduler = makers[kind]()
    const isOfSequences = kind === 'sequences'
    for (const member of limited) {
      member.wake = () => scheduler.instancesChanged()
    }
    const ledger: Ledger = new Ledger(() => scheduler, isOfSequences ? 2 * bound : bound)
    return { scheduler, ledger, instances, used: instances, isOfSequences }
  }

  #rescale(model: SimulatedModel, used: readonly ClaimingInstance[]): void {
    model.used = used
    void model.scheduler.setInstances?.(used.map(({ limited }) => limited as LimitedInstance))
  }

  #arrive({ ledger, isOfSequences }: SimulatedModel, value: number): void {
    const nowNs = this.clock.nowNs()
    if (!isOfSequences) ledger.enqueue(nowNs)
    else {
      const correlationId = BigInt(1 + (value % 7))
      ledger.enqueue(nowNs, { correlationId, isSequenceStart: true, isSequenceEnd: value % 2 === 0, batchSize: 1 })
    }
  }

  #modelOf(instance: ClaimingInstance): SimulatedModel {
    return this.models.find(({ instances }) => instances.includes(instance)) as SimulatedModel
  }
}

const shareKeys = (a: LimitedInstance, b: LimitedInstance): boolean =>
  [...a.needs.keys()].some((key) => b.needs.has(key))

function drawClaim(random: Random): InstanceClaim {
  const resources = ['R', 'S']
    .filter(() => !random.oneIn(3))
    .map((name) => ({ name, count: 1 + random.int(3), isGlobal: name === 'S' }))
  return { resources, priority: random.int(4), deviceId: random.int(2) }
}

const histories = (make: LimiterMaker = (given) => new RateLimiter(given)): Histories<Setup, Step> => ({
  longest: 120,
  setup: (random) => ({
    models: Array.from({ length: 1 + random.int(4) }, () => ({
      kind: random.pick(['direct', 'dynamic', 'sequences'] as const),
      claims: Array.from({ length: 1 + random.int(3) }, () => drawClaim(random)),
    })),
    given: random.oneIn(2)
      ? null
      : [
          ['R', 3 + random.int(3)],
          ['S', 3 + random.int(3)],
        ],
  }),
  step: (random) => ({ do: random.oneIn(300) ? 'drain' : random.weighted(weights), value: random.int(1000) }),
  live: async (setup, steps) => {
    const simulation = new Simulation(setup, make)
    const turn = async (): Promise<void> => {
      // The limiter makes its offers, and schedulers end their turns, in microtasks.
      for (let i = 0; i < 6; i++) await Promise.resolve()
      simulation.check()
    }
    for (const step of steps) {
      simulation.run(step)
      await turn()
    }
    for (const instance of simulation.instances) simulation.setReady(instance, true)
    const ledgers = simulation.models.map(({ ledger }) => ledger)
    const drained = Promise.all(ledgers.map((ledger) => (ledger.isDraining ? Promise.resolve() : ledger.drain())))
    for (let round = 0; ledgers.some(({ openCount }) => openCount > 0); round++) {
      assert.ok(round < 500, 'everything admitted ends')
      for (const instance of simulation.instances) simulation.finish(instance)
      await turn()
    }
    await drained
    for (const { isDrained } of ledgers) assert.ok(isDrained, 'a drain ends with the last request')
  },
})

testHistories(
  'resources in use stay within their capacity, and who can run does, whatever happens',
  60_000,
  histories(),
)

class ReleasesTwice extends RateLimiter {
  override giveBack(member: LimitedInstance): void {
    super.giveBack(member)
    super.giveBack(member)
  }
}
testIsFoundOut(
  'resources are given back twice',
  2000,
  histories((given) => new ReleasesTwice(given)),
)

class LosesWakeUps extends RateLimiter {
  override limit(instance: Instance, claim: InstanceClaim): LimitedInstance {
    const member = super.limit(instance, claim)
    return Object.defineProperty(member, 'wake', {
      get: () => () => undefined,
      set() {},
    })
  }
}
testIsFoundOut(
  'one that was denied is not woken',
  2000,
  histories((given) => new LosesWakeUps(given)),
)

class KeepsClaims extends RateLimiter {
  override withdraw(): void {}
}
testIsFoundOut(
  'one whose work is gone still stands in line',
  2000,
  histories((given) => new KeepsClaims(given)),
)

class CountsShort extends RateLimiter {
  override take(member: LimitedInstance): void {
    if (member.needs.size < 2) super.take(member)
  }
  override giveBack(member: LimitedInstance): void {
    if (member.needs.size < 2) super.giveBack(member)
  }
}
testIsFoundOut(
  'who needs two resources takes none',
  2000,
  histories((given) => new CountsShort(given)),
)
