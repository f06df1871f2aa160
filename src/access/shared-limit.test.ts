// Three servers with one store, in virtual time. What the servers admit is compared with one server that gets all calls.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { Random } from '../../test/scenario/random.ts'
import { Gcra } from './gcra.ts'
import type { LimitRule } from './limit-rule.ts'
import type { Lease, LimitStore } from './limit-store.ts'
import { SharedLimit } from './shared-limit.ts'

type RateRule = Extract<LimitRule, { readonly kind: 'rate' }>
type Chance = () => number

const rateOf = (amount: number, burst: number, isExact = false): RateRule => ({
  kind: 'rate',
  unit: 'requests',
  amount,
  periodNs: 1e9,
  burst,
  period: '1s',
  isExact,
})

/** What the script in Redis does, with questions and answers that are under way for some time. */
class DelayedStore implements LimitStore {
  isUp = true
  arrivedCount = 0
  readonly isClosedWhenAway = false
  readonly #clock: ManualClock
  readonly #rate: Gcra
  readonly #delayNs: () => number

  constructor(clock: ManualClock, { amount, periodNs, burst }: RateRule, delayNs: () => number) {
    this.#clock = clock
    this.#rate = new Gcra(amount, periodNs, burst)
    this.#delayNs = delayNs
  }

  async lease(_key: string, _rule: LimitRule, debt: number, want: number): Promise<Lease> {
    await this.#travel()
    const nowNs = this.#clock.nowNs()
    this.#rate.take(nowNs, debt)
    const granted = Math.min(want, Math.floor(this.#rate.left(nowNs)))
    this.#rate.take(nowNs, granted)
    const lease = { granted, waitNs: this.#rate.waitNs(nowNs, 1), left: this.#rate.left(nowNs) }
    await this.#travel()
    return lease
  }

  #travel(): Promise<void> {
    return new Promise((arrived) => {
      this.#clock.after(this.#delayNs(), () => {
        this.arrivedCount++
        arrived()
      })
    })
  }
}

/** Calls that come to a server in a millisecond, `perMs` being the limit of all servers. */
type Demand = (server: number, ms: number, perMs: number, random: Chance) => number

const demands: Readonly<Record<string, Demand>> = {
  'the limit on each server': (_server, _ms, perMs, random) => Math.floor(perMs + random()),
  'nearly all on one server': (server, _ms, perMs, random) =>
    server === 0 ? Math.floor(2 * perMs + random()) : Math.floor(perMs / 20 + random()),
  'bursts on one server after the other': (server, ms, perMs, random) =>
    ms % 1000 < 100 && Math.floor(ms / 1000) % 3 === server ? Math.floor(30 * perMs + random()) : 0,
  'a second of calls at once': (server, ms, perMs) => (ms % 700 === server * 30 ? perMs * 1000 : 0),
  'just the limit': (_server, _ms, perMs, random) => Math.floor(perMs / 3 + random()),
}

const settled = async (): Promise<void> => {
  for (let i = 0; i < 8; i++) await Promise.resolve()
}

type Outcome = { readonly admitted: number; readonly reference: number }

async function simulate(rule: RateRule, demand: Demand, delayMs: number, seconds: number): Promise<Outcome> {
  const clock = new ManualClock()
  const numbers = new Random(7, 1)
  const random: Chance = () => numbers.int(1e6) / 1e6
  const store = new DelayedStore(clock, rule, () => delayMs * (0.5 + random()) * 1e6)
  const servers = [0, 1, 2].map(() => new SharedLimit(store, 'web', rule))
  const reference = new Gcra(rule.amount, 1e9, rule.burst)
  const outcome = { admitted: 0, reference: 0 }
  const call = (server: SharedLimit, nowNs: number): void => {
    if (server.mustAsk(nowNs, 1)) {
      void server.reserve(nowNs, 1).then((waitNs) => (outcome.admitted += waitNs === 0 ? 1 : 0))
    } else if (server.waitNs(nowNs, 1) === 0) {
      server.take(nowNs, 1)
      outcome.admitted++
    }
    if (reference.waitNs(nowNs, 1) > 0) return
    reference.take(nowNs, 1)
    outcome.reference++
  }
  for (let ms = 1; ms <= seconds * 1000; ms++) {
    const { arrivedCount } = store
    clock.advanceMs(1)
    if (store.arrivedCount > arrivedCount) await settled()
    for (const [index, server] of servers.entries()) {
      for (let calls = demand(index, ms, rule.amount / 1000, random); calls >= 1; calls--) call(server, clock.nowNs())
    }
    const most = rule.burst + rule.amount * (ms / 1000)
    if (outcome.admitted > most) assert.fail(`${outcome.admitted} of ${most} after ${ms} ms`)
  }
  return outcome
}

for (const [name, demand] of Object.entries(demands)) {
  test(`three servers hold a limit within 2 % of one server: ${name}`, async () => {
    for (const amount of [50, 100, 400]) {
      for (const delayMs of [0.2, 100]) {
        const { admitted, reference } = await simulate(rateOf(amount, amount), demand, delayMs, 40)
        const told = `${admitted} of ${reference} at ${amount}/s, Redis ${delayMs} ms away`
        assert.ok(Math.abs(admitted / reference - 1) <= 0.02, told)
      }
    }
  })
}

test('a burst that is shorter than a lease is held as well', async () => {
  for (const demand of Object.values(demands)) {
    for (const isExact of [false, true]) {
      const { admitted, reference } = await simulate(rateOf(100, 8, isExact), demand, 0.2, 20)
      assert.ok(Math.abs(admitted / reference - 1) <= 0.02, `${admitted} of ${reference}`)
    }
  }
})

test('what is used without asking is owed and paid', async () => {
  const clock = new ManualClock()
  const rule = rateOf(10, 10)
  const limit = new SharedLimit(new DelayedStore(clock, rule, () => 0), 'web', rule)
  limit.take(0, 25)
  clock.advanceMs(1)
  await settled()
  clock.advanceMs(1)
  await settled()
  // 15 are owed beyond the burst: they come back at 10/s, and then one more.
  assert.equal(Math.round((limit.waitNs(clock.nowNs(), 1) ?? 0) / 1e8), 16)
})

test('a call whose question gets no answer is decided by the count of the server itself', async () => {
  const rule = rateOf(10, 10)
  const store: LimitStore = { isUp: true, isClosedWhenAway: false, lease: () => Promise.reject(new Error('away')) }
  const limit = new SharedLimit(store, 'web', rule)
  assert.equal(await limit.reserve(0, 1), null)
  const closed = new SharedLimit({ ...store, isUp: false, isClosedWhenAway: true }, 'web', rule)
  assert.equal(closed.mustAsk(0, 1), false)
  assert.ok((closed.waitNs(0, 1) ?? 0) > 0)
})
