// What a queue does when more comes than its model can do: goodput, fairness among tenants, and who is left alone.

import assert from 'node:assert/strict'
import test from 'node:test'
import { quantileOf, simulate, type Clients, type Outcome, type OverloadStory } from './overload-simulation.ts'
import { Random } from './random.ts'

const serviceMs = 6
const capacity = 1000 / serviceMs
const targetMs = 20
const impatient = (factor: number, more: Partial<Clients> = {}): Clients => ({
  rate: () => factor * capacity,
  patienceMs: () => 100,
  ...more,
})
const sixMs: Pick<OverloadStory, 'serviceMs' | 'seconds' | 'targetMs'> = {
  serviceMs: () => serviceMs,
  seconds: 4,
  targetMs,
}

const leastGoodput: readonly (readonly [factor: number, share: number])[] = [
  [2, 0.95],
  [5, 0.95],
  [10, 0.95],
  [20, 0.95],
  [50, 0.95],
]

type Kind = { readonly name: string; readonly story: Omit<OverloadStory, 'clients'>; readonly perSecond: number }
const bimodalMs = (random: Random): number => (random.oneIn(20) ? 63 : 3)
const kinds: readonly Kind[] = [
  { name: 'one instance', story: sixMs, perSecond: capacity },
  { name: 'four instances', story: { ...sixMs, instanceCount: 4 }, perSecond: 4 * capacity },
  { name: 'batches of four', story: { ...sixMs, seconds: 8, maxBatchSize: 4, serviceMs: () => 20 }, perSecond: 200 },
]

for (const { name, story, perSecond } of kinds) {
  for (const [factor, share] of leastGoodput) {
    for (const disconnects of [true, false]) {
      const how = disconnects ? 'clients that disconnect' : 'clients that forget'
      test(`${name}, ${factor} × the load, ${how}: ${share * 100} % of the peak in good answers`, () => {
        const outcome = simulate({ ...story, clients: [impatient(0, { rate: () => factor * perSecond, disconnects })] })
        const good = outcome.good / story.seconds / perSecond
        assert.ok(good >= share, `${(good * 100).toFixed(1)} %`)
        assert.ok(quantileOf(outcome.goodMs, 0.99) <= 90, `p99 ${quantileOf(outcome.goodMs, 0.99)} ms`)
      })
    }
  }
}

test('execution times of two kinds: more good answers than without a target, at 2 and at 10 times the load', () => {
  for (const factor of [2, 10]) {
    const story = { ...sixMs, serviceMs: bimodalMs, clients: [impatient(factor)] }
    const [before, after] = [simulate({ ...story, targetMs: 0 }), simulate(story)]
    assert.ok(after.good > before.good, `${factor} ×: ${before.good} before, ${after.good} after`)
  }
})

test('clients that leave before three executions have passed are seen too', () => {
  for (const factor of [2, 10]) {
    const story = { ...sixMs, seconds: 10, serviceMs: () => 40, clients: [impatient(0, { rate: () => factor * 25 })] }
    const { good } = simulate(story)
    assert.ok(good >= 0.85 * 250, `${factor} ×: ${good} of 250`)
  }
})

test('clients of different patience: the impatient ones get their answers too', () => {
  const clients = [30, 100, 1000].map((patienceMs) => impatient(2, { patienceMs: () => patienceMs }))
  const { byClients } = simulate({ ...sixMs, clients })
  const [hasty, , calm] = byClients
  assert.ok((hasty?.good ?? 0) > 0.8 * (calm?.good ?? 0), `${hasty?.good} and ${calm?.good}`)
})

test('below saturation nothing changes: the same requests begin in the same order', () => {
  // At 90 % clients that wait for 100 ms do give up now and then, so there the clients are patient.
  const loads = [0.3, 0.6, 0.8].map((factor) => impatient(factor))
  for (const client of [...loads, impatient(0.9, { patienceMs: () => Infinity })]) {
    for (let seed = 1; seed <= 5; seed++) {
      const story = { ...sixMs, seed, seconds: 10, maxQueueSize: 10_000, clients: [client] }
      const [off, on] = [simulate({ ...story, targetMs: 0 }), simulate(story)]
      assert.deepEqual(on.startOrder, off.startOrder)
      assert.equal(on.refused, 0)
    }
  }
})

test('a patient client that sends 1,000 requests at once gets 1,000 answers, in the order of the requests', () => {
  const outcome = simulate({ ...sixMs, clients: [], burst: 1000 })
  assert.equal(outcome.good, 1000)
  assert.deepEqual(
    outcome.startOrder,
    outcome.startOrder.toSorted((a, b) => a - b),
  )
})

test('a patient client that needs two seconds to send 1,000 requests gets all answers', () => {
  const rate = (seconds: number): number => (seconds < 2 ? 500 : 0)
  const outcome = simulate({ ...sixMs, clients: [{ rate, patienceMs: () => Infinity }] })
  assert.equal(outcome.good, outcome.sent)
})

test('clients that wait for each answer before the next request are never refused, and take turns', () => {
  for (const closedLoop of [8, 64, 400]) {
    const { refused, goodMs } = simulate({ ...sixMs, seconds: 10, clients: [], closedLoop })
    assert.equal(refused, 0)
    // First in, first out: everybody waits for everybody else, and nobody for longer.
    assert.ok(Math.max(...goodMs) <= 1.3 * closedLoop * serviceMs, `${Math.max(...goodMs)} ms`)
  }
})

test('a model of 30 s does not refuse the requests of patient clients', () => {
  const clients = [{ rate: () => 0.1, patienceMs: () => Infinity }]
  const { good, sent } = simulate({ ...sixMs, seconds: 120, serviceMs: () => 30_000, clients })
  assert.equal(good, sent)
})

const within = (outcome: Outcome, fromSecond: number, toSecond: number): number =>
  outcome.goodByTenth.slice(fromSecond * 10, toSecond * 10).reduce((sum, count) => sum + count, 0)

test('one second after an overload everybody is answered again', () => {
  for (const disconnects of [true, false]) {
    const rate = (seconds: number): number => (seconds < 3 ? 20 : 0.5) * capacity
    const story = { ...sixMs, seconds: 8, clients: [impatient(0, { rate, disconnects })] }
    const outcome = simulate(story)
    const perSecond = within(outcome, 4, 8) / 4
    assert.ok(perSecond > 0.45 * capacity, `${perSecond} of ${capacity / 2} per second`)
  }
})

test('after an overload nobody starves: patient requests from before it end in an answer or a refusal', () => {
  const rate = (seconds: number): number => (seconds < 5 ? 10 : 0.5) * capacity
  const outcome = simulate({ ...sixMs, seconds: 20, burst: 300, clients: [impatient(0, { rate })] })
  const burst = outcome.byClients[1]
  assert.equal(burst?.good, 300, 'they waited for the end of the overload, and then ran')
})

test('a patient burst does not stand in the way of others', () => {
  const { byClients } = simulate({ ...sixMs, seconds: 12, burst: 1000, clients: [impatient(0.3)] })
  const [others, burst] = byClients
  assert.equal(burst?.good, 1000)
  assert.ok((others?.good ?? 0) > 0.9 * (others?.sent ?? 0), `${others?.good} of ${others?.sent}`)
})

test('preserve_ordering keeps the order in an overload, and refuses newcomers', () => {
  const story = { ...sixMs, maxBatchSize: 1, keepsOrder: true, clients: [impatient(5)] }
  const { startOrder, refused, good } = simulate(story)
  assert.deepEqual(
    startOrder,
    startOrder.toSorted((a, b) => a - b),
  )
  assert.ok(refused > 0)
  assert.ok(good > 0.5 * story.seconds * capacity, `${good} good answers`)
})

for (const limit of [{ timeoutMs: 500 }, { deadlineMs: 500 }]) {
  test(`a request that cannot begin in time is refused at once: ${Object.keys(limit).join()}`, () => {
    const rate = (seconds: number): number => (seconds > 1 && seconds < 1.5 ? 20 : 0)
    const late = { patienceMs: () => Infinity, rate, ...limit }
    const { byClients, refused } = simulate({ ...sixMs, burst: 1000, clients: [late] })
    assert.equal(byClients[0]?.good, 0)
    assert.equal(refused, byClients[0]?.sent)
  })
}

test('no more requests of an overload wait than can run within the target', () => {
  const clients = [impatient(20, { patienceMs: () => Infinity })]
  const { waitingAtEnd, refused, sent } = simulate({ ...sixMs, seconds: 6, clients })
  // Requests from before the overload was found wait on: 20 × the load for a fifth of a second.
  assert.ok(waitingAtEnd < 0.25 * 20 * capacity, `${waitingAtEnd} wait`)
  assert.ok(refused > 0.5 * sent)
})

test('an overload that lasts refuses those who came before it after 30 s', () => {
  const { byClients } = simulate({ ...sixMs, seconds: 40, burst: 300, clients: [impatient(3)] })
  const burst = byClients[1]
  assert.ok((burst?.good ?? 0) < 300, 'the others were refused')
  assert.ok(Math.max(...(burst?.ms ?? [])) < 31_000)
})

test('every request ends once, whatever the load, the clients and the model', () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed, 7)
    const clients = Array.from({ length: 1 + random.int(3) }, (_, i): Clients => {
      const [factor, patience] = [random.pick([0.3, 1, 3, 20]), random.pick([20, 100, 1000, Infinity])]
      return {
        tenant: random.pick(['', `t${i}`]),
        weight: 1 + random.int(4),
        rate: (seconds) => (Math.floor(seconds * 4) % 2 === 0 ? factor : 0.3) * capacity,
        patienceMs: () => patience,
        disconnects: random.oneIn(2),
        timeoutMs: random.pick([0, 0, 30, 500]),
      }
    })
    const { sent, good, late, refused, gaveUp } = simulate({
      seed,
      seconds: 1.5,
      clients,
      burst: random.pick([0, 0, 200]),
      closedLoop: random.pick([0, 0, 30]),
      instanceCount: 1 + random.int(3),
      maxBatchSize: random.pick([0, 1, 4]),
      keepsOrder: random.oneIn(3),
      targetMs: random.pick([1, 20]),
      maxQueueSize: random.pick([5, 50, 10_000]),
      serviceMs: (own) => (own.oneIn(10) ? 30 : 4),
    })
    assert.equal(good + late + refused + gaveUp, sent)
  }
})

test('a tenant that sends ten times its share leaves the others as they are', () => {
  for (const story of kinds.map((kind) => ({ ...kind.story, seconds: 30, perSecond: kind.perSecond }))) {
    const quiet = (tenant: string): Clients => ({
      tenant,
      rate: () => 0.2 * story.perSecond,
      patienceMs: () => Infinity,
    })
    const noisy: Clients = { tenant: 'noisy', rate: () => (10 / 3) * story.perSecond, patienceMs: () => Infinity }
    const fair: Clients = { ...noisy, rate: () => story.perSecond / 3 }
    const p99With = (third: Clients): number => {
      const { byClients } = simulate({ ...story, clients: [quiet('a'), quiet('b'), third] })
      return quantileOf([...(byClients[0]?.ms ?? []), ...(byClients[1]?.ms ?? [])], 0.99)
    }
    const [alone, beside] = [p99With(fair), p99With(noisy)]
    assert.ok(beside <= 1.3 * alone, `p99 ${alone} ms beside a fair tenant, ${beside} ms beside a noisy one`)
  }
})

test('a full queue refuses the newest request of the tenant that has the most for its weight', () => {
  const clients = ['a', 'b'].map((tenant, i): Clients => ({
    tenant,
    weight: i === 0 ? 3 : 1,
    rate: () => 5 * capacity,
    patienceMs: () => Infinity,
  }))
  const { byClients } = simulate({ ...sixMs, targetMs: 0, maxQueueSize: 40, seconds: 20, clients })
  const ratio = (byClients[0]?.good ?? 0) / (byClients[1]?.good ?? 1)
  assert.ok(ratio > 2.7 && ratio < 3.3, `weights 3 and 1, answers ${ratio.toFixed(2)} to 1`)
})
