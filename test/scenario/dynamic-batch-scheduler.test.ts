// The dynamic batcher under random arrivals, finishes, deaths, cancellations, drains and time, in virtual time, beside a
// slow, obvious implementation of the same rules.

import assert from 'node:assert/strict'
import { ServerError } from '../../src/base/server-error.ts'
import { ReferenceBatcher, type Arrival, type ReferenceSettings } from './dynamic-batch-reference.ts'
import { brokenSchedulers } from './dynamic-batch-broken.ts'
import { Simulation, type SchedulerMaker } from './dynamic-batch-simulation.ts'
import { testHistories, testIsFoundOut, type Histories } from './histories.ts'
import type { Random } from './random.ts'
import { rescaled } from './simulated-instance.ts'

function drawSettings(random: Random): ReferenceSettings {
  const maxBatchSize = 1 + random.int(8)
  const levels = random.int(4)
  const policy = random.oneIn(2)
    ? null
    : {
        action: random.pick(['REJECT', 'DELAY'] as const),
        timeoutUs: random.pick([0, 40, 90]),
        allowsOverride: random.oneIn(2),
        maxQueueSize: random.pick([0, 1, 5]),
      }
  const preferred = Array.from({ length: random.int(4) }, () => 1 + random.int(8))
  return {
    maxBatchSize,
    preferred: [...new Set(preferred)].filter((size) => size <= maxBatchSize),
    delayUs: random.pick([0, 30, 100]),
    levels,
    defaultLevel: levels === 0 ? 0 : Math.min(2, levels),
    policy,
    defaultBound: random.pick([3, 12, Infinity]),
    instanceCount: 1 + random.int(3),
    preservesOrder: random.oneIn(2) && levels <= 1 && policy?.action !== 'DELAY',
    buckets: random.pick([null, [], [2, 4]]),
  }
}

const drawArrival = (random: Random): Arrival => ({
  rows: 1 + random.int(8),
  priority: random.int(5),
  timeoutUs: random.pick([0, 0, 20, 60]),
  length: random.pick([3, 3, 3, 4, 2, 6, 7, 17, 32, 33]),
  raggedLength: random.int(4),
  hasOptional: random.oneIn(4),
})

type Step =
  | { readonly do: 'arrive'; readonly value: readonly Arrival[] }
  | { readonly do: Exclude<keyof typeof weights, 'arrive'>; readonly value: number }
const weights = { arrive: 20, finish: 12, advance: 12, cancel: 4, die: 2, fail: 3, flip: 2, rescale: 1, drain: 0 }
const most = { finish: 3, advance: 61, cancel: 13, die: 3, fail: 3, flip: 3, rescale: 64, drain: 1 }

function drawStep(random: Random): Step {
  const action = random.oneIn(160) ? 'drain' : random.weighted(weights)
  if (action !== 'arrive') return { do: action, value: random.int(most[action]) }
  return { do: action, value: Array.from({ length: 1 + random.int(6) }, () => drawArrival(random)) }
}

const died = ServerError.withoutStack('INTERNAL', 'its worker died')

const wasBad = ServerError.withoutStack('INTERNAL', 'one of them was bad')

/** One history on both; throws at the first step after which they differ or a rule is broken. */
async function live(from: ReferenceSettings, steps: readonly Step[], make?: SchedulerMaker): Promise<void> {
  const real = new Simulation(from, make)
  const reference = new ReferenceBatcher(from)
  let isDraining = false
  /** Lines of the logs that are known to be equal. */
  let compared = 0
  let used: readonly number[] = [...real.instances.keys()]
  const setReady = (index: number, isReady: boolean): void => {
    const instance = real.instances[index]
    if (instance === undefined) return
    instance.isReady = isReady
    reference.setReady(index, isReady)
    real.scheduler.instancesChanged()
    reference.settle()
  }
  const settle = (): void => {
    real.endTurn()
    reference.settle()
    for (; compared < reference.log.length && real.log[compared] === reference.log[compared]; compared++);
    if (compared < Math.max(real.log.length, reference.log.length)) assert.deepEqual(real.log, reference.log)
    assert.equal(real.scheduler.pendingCount, reference.pendingCount)
    real.check()
  }
  const perform = ({ do: action, value }: Step): void => {
    if (action === 'arrive') {
      for (const each of value) {
        const fitting: Arrival = { ...each, rows: 1 + ((each.rows - 1) % from.maxBatchSize) }
        reference.arrive(real.requestCount, fitting)
        real.arrive(real.requestCount, fitting)
      }
    } else if (action === 'advance') {
      real.clock.advanceUs(value)
      reference.advance(value)
    } else if (action === 'cancel') {
      const id = real.requestCount - 1 - value
      real.cancel(id)
      reference.cancel(id)
    } else if (action === 'flip') {
      const place = used[value] ?? -1
      const instance = real.instances[place]
      if (instance !== undefined) setReady(place, !instance.isReady)
    } else if (action === 'rescale') {
      let next = real.instances.length
      used = rescaled(used, value, () => next++)
      real.setInstances(used)
      reference.setInstances(used)
    } else if (action === 'drain') {
      if (isDraining) return
      isDraining = true
      real.drain()
      reference.drain()
    } else if (action === 'die') {
      const index = real.instances.findIndex((instance) => instance === real.running[value])
      if (index < 0) return
      setReady(index, false)
      reference.finish(value, 'INTERNAL')
      real.finish(value, died, true)
    } else if (action === 'fail') {
      reference.fail(value)
      real.finish(value, wasBad)
    } else {
      reference.finish(value, 'ok')
      real.finish(value, null)
    }
  }
  for (const next of steps) {
    perform(next)
    settle()
    if (real.departures.isAwaited) await real.departures.check()
  }
  // Then every worker is back, time passes and all work is done: nothing may be left over.
  for (const index of real.instances.keys()) setReady(index, true)
  while (real.endedCount < real.requestCount) {
    perform({ do: 'advance', value: 100 })
    perform({ do: 'finish', value: 0 })
    settle()
  }
  await real.departures.check()
  assert.equal(real.scheduler.pendingCount, 0)
  assert.equal(real.clock.pendingCount, 0, 'no timer is left behind')
  if (isDraining) assert.equal(real.running.length, 0)
}

const histories = (make?: SchedulerMaker): Histories<ReferenceSettings, Step> => ({
  longest: 80,
  setup: drawSettings,
  step: drawStep,
  live: (from, steps) => live(from, steps, make),
})

testHistories(
  'the dynamic batcher keeps its invariants and does what the obvious implementation does, whatever happens',
  200_000,
  histories(),
)

for (const [mistake, make] of Object.entries(brokenSchedulers)) testIsFoundOut(mistake, 20_000, histories(make))
