// The direct scheduler under random arrivals, finishes, cancellations, worker deaths, drains and time, in virtual time.

import assert from 'node:assert/strict'
import test from 'node:test'
import { anonymous, type Caller } from '../../src/access/caller.ts'
import { ManualClock } from '../fakes/manual-clock.ts'
import { ServerError } from '../../src/base/server-error.ts'
import type { Batch } from '../../src/model/batch.ts'
import { DirectScheduler } from '../../src/scheduling/direct-scheduler.ts'
import { testHistories, type Histories } from './histories.ts'
import { tenantCaller } from './overload-simulation.ts'
import { Ledger } from './ledger.ts'
import { Departures, rescaled, SimulatedInstance } from './simulated-instance.ts'

type Setup = {
  readonly instanceCount: number
  readonly depth: number
  readonly maxQueueSize: number
  /** 0: an overload is not looked for. */
  readonly targetNs: number
  readonly tenants: readonly Caller[]
}
type Step = { readonly do: keyof typeof weights; readonly value: number }
const weights = { arrive: 20, finish: 16, cancel: 4, advance: 6, die: 2, flip: 2, depth: 2, rescale: 1, drain: 0 }

class DirectInstance extends SimulatedInstance {
  override execute(batch: Batch): void {
    assert.equal(batch.requests.length, 1, 'one request per execution')
    if (this.isBusy) assert.equal(batch.requests[0]?.timeoutUs, 0n, 'a request that may expire waits where it can')
    super.execute(batch)
  }
}

class Simulation {
  readonly clock = new ManualClock()
  readonly ledger: Ledger
  readonly departures = new Departures()
  /** Those that take requests, and those that were taken away and are not done. */
  instances: readonly SimulatedInstance[]
  #used: readonly SimulatedInstance[]
  readonly #scheduler: DirectScheduler
  readonly #setup: Setup
  #lastStarted = -1

  constructor(setup: Setup) {
    this.#setup = setup
    this.instances = Array.from({ length: setup.instanceCount }, () => this.#createInstance())
    this.#used = this.instances
    const { targetNs, maxQueueSize } = setup
    const overload = targetNs === 0 ? null : { targetNs, batchDelayNs: 0, maxBatchSize: 1 }
    this.#scheduler = new DirectScheduler({ clock: this.clock }, this.instances, { maxQueueSize, overload })
    this.ledger = new Ledger(() => this.#scheduler, setup.maxQueueSize)
  }

  run({ do: action, value }: Step): void {
    const { ledger, instances } = this
    const instance = instances[value % instances.length] as SimulatedInstance
    switch (action) {
      case 'arrive':
        ledger.enqueue(this.clock.nowNs(), {
          timeoutUs: BigInt(value % 3 === 0 ? 1 + (value % 200) : 0),
          caller: this.#setup.tenants[value % this.#setup.tenants.length] ?? anonymous,
        })
        break
      case 'finish':
        this.finish(instance)
        break
      case 'cancel':
        ledger.requests.at(-1 - (value % 30))?.cancel()
        break
      case 'advance':
        this.clock.advanceUs(value % 100)
        break
      case 'die':
        this.setReady(instance, false)
        this.#drop(instance)
        break
      case 'flip':
        this.setReady(instance, !instance.isReady)
        break
      case 'depth':
        for (const each of instances) each.prefetchDepth = Math.min(value % 4, this.#setup.depth)
        break
      case 'rescale':
        this.#rescale(value)
        break
      case 'drain':
        if (!ledger.isDraining) void ledger.drain()
    }
  }

  #rescale(value: number): void {
    const used = rescaled(this.#used, value, () => this.#createInstance())
    const leaving = this.#used.filter((instance) => !used.includes(instance))
    this.instances = [...used, ...this.instances.filter((instance) => !used.includes(instance) && instance.isBusy)]
    this.#used = used
    this.departures.watch(leaving, this.#scheduler.setInstances(used))
  }

  #createInstance(): SimulatedInstance {
    const instance = new DirectInstance((started, batch) => this.#onStart(started, batch))
    instance.prefetchDepth = this.#setup.depth
    return instance
  }

  finish(instance: SimulatedInstance): void {
    const batch = instance.batches.shift()
    if (batch === undefined) return
    for (const request of batch.requests) request.respond(this.ledger.answerTo(request))
    batch.executed()
  }

  setReady(instance: SimulatedInstance, isReady: boolean): void {
    instance.isReady = isReady
    this.#scheduler.instancesChanged()
  }

  /** Everything it holds fails, parked batches too. */
  #drop(instance: SimulatedInstance): void {
    const batches = instance.batches.splice(0)
    for (const { requests } of batches) for (const request of requests) request.fail(died)
    for (const batch of batches) batch.executed()
  }

  check(): void {
    this.ledger.check()
    const canWork = this.#used.some(({ isReady, batches }) => isReady && batches.length === 0)
    assert.ok(!canWork || this.ledger.waiting.size === 0, 'an idle instance with eligible work')
    for (const request of this.ledger.waiting) {
      if (request.timeoutUs === 0n) continue
      const waitedNs = this.clock.nowNs() - (this.ledger.enqueuedNs.get(request) ?? 0)
      assert.ok(waitedNs < Number(request.timeoutUs) * 1000, 'a request does not outstay its time')
    }
  }

  #onStart(instance: SimulatedInstance, { requests: [request] }: Batch): void {
    assert.ok(this.#used.includes(instance), 'one that is leaving is given nothing')
    if (this.#used.length > 1) assert.equal(instance.batches.length, 1, 'one of several instances parks nothing')
    assert.ok(request !== undefined)
    this.ledger.started(request)
    if (this.#setup.targetNs > 0 || this.#setup.tenants.length > 1) return
    const index = this.ledger.indexOf(request)
    assert.ok(index > this.#lastStarted, 'first in, first out')
    this.#lastStarted = index
  }
}

const died = ServerError.withoutStack('INTERNAL', 'its worker died')

const histories: Histories<Setup, Step> = {
  longest: 250,
  setup: (random) => ({
    instanceCount: 1 + random.int(3),
    depth: random.int(4),
    maxQueueSize: random.pick([0, 1, 4, Infinity]),
    // So short that the few microseconds of a history are an overload.
    targetNs: random.pick([0, 0, 100, 1000]),
    tenants: random.pick([
      [anonymous],
      [anonymous],
      ['a', 'b', 'c'].map((tenant) => tenantCaller(tenant, 1 + random.int(4))),
    ]),
  }),
  step: (random) => ({
    do: random.oneIn(400) ? 'drain' : random.weighted(weights),
    value: random.int(1000),
  }),
  live: async (setup, steps) => {
    const simulation = new Simulation(setup)
    const { ledger, departures } = simulation
    for (const step of steps) {
      simulation.run(step)
      simulation.check()
      if (departures.isAwaited) await departures.check()
    }
    const drained = ledger.isDraining ? Promise.resolve() : ledger.drain()
    for (const instance of simulation.instances) simulation.setReady(instance, true)
    for (let round = 0; ledger.openCount > 0; round++) {
      assert.ok(round < 1000, 'everything admitted ends')
      for (const instance of simulation.instances) simulation.finish(instance)
      simulation.check()
    }
    await drained
    await departures.check()
    assert.ok(ledger.isDrained, 'a drain ends with the last request')
    assert.equal(simulation.clock.pendingCount, 0, 'no timer is left behind')
  },
}

testHistories('the direct scheduler keeps its invariants, whatever happens', 800_000, histories)

test('the sole instance is handed further requests up to its depth, and the queue bound counts those that wait behind', () => {
  const setup = { instanceCount: 1, depth: 2, maxQueueSize: 4, targetNs: 0, tenants: [anonymous] }
  const simulation = new Simulation(setup)
  const { ledger } = simulation
  const [instance] = simulation.instances as [SimulatedInstance]
  for (let i = 0; i < 3 + setup.maxQueueSize; i++) ledger.enqueue(0)
  assert.equal(ledger.running.size, 3)
  assert.equal(ledger.waiting.size, setup.maxQueueSize)
  assert.ok(ledger.enqueue(0).isEnded, 'one more is refused')
  // It takes none ahead of time any more: what it holds comes first, then one at a time.
  instance.prefetchDepth = 0
  simulation.finish(instance)
  simulation.finish(instance)
  assert.equal(ledger.running.size, 1)
  simulation.finish(instance)
  assert.equal(ledger.running.size, 1)
  assert.equal(ledger.waiting.size, setup.maxQueueSize - 1)
})
