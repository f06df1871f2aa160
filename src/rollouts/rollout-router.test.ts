import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { bucketOf, RandomDraws } from './assignment.ts'
import { variantHeader } from './rollout-arm.ts'
import { readRolloutFile } from './rollout-file.ts'
import { RolloutRouter, type Assignment } from './rollout-router.ts'
import type { RouteFacts } from './traffic-rule.ts'

type Call = Partial<Omit<RouteFacts, 'header' | 'country' | 'parameter' | 'correlationId'>> & {
  readonly headers?: Readonly<Record<string, string>>
  readonly land?: string
  readonly parameters?: Readonly<Record<string, string>>
  readonly sequence?: string
}

const factsOf = (call: Call): RouteFacts => ({
  protocol: call.protocol ?? 'http',
  header: (name) => call.headers?.[name] ?? null,
  groups: call.groups ?? [],
  tenant: call.tenant ?? '',
  principal: call.principal ?? '',
  country: () => call.land ?? '',
  parameter: (name) => call.parameters?.[name] ?? null,
  correlationId: () => call.sequence ?? '',
})

function routerOf(plan: object, weight: number): (call: Call) => Assignment {
  const read = readRolloutFile({ kind: 'rollout', ...plan }, () => null)
  assert.deepEqual(read.problems, [])
  assert.ok(read.plan !== null)
  const { key, rules, salt } = read.plan
  const router = new RolloutRouter({ name: 'r1', salt, key, rules, arms: ['stable', 'candidate'] }, new RandomDraws(5))
  router.setWeight(weight)
  return (call) => router.route(factsOf(call))
}

const [stable, candidate] = [0, 1]

describe('rules', () => {
  const rules = [
    { when: { header: { 'X-Canary': { in: ['always', '1'] } } }, to: 'candidate' },
    { when: { cookie: { beta: { prefix: 'on' } } }, to: 'candidate' },
    { when: { group: ['staff'], protocol: 'grpc' }, to: 'candidate' },
    { when: { tenant: { matches: '^bank-[a-z]+$' } }, to: 'stable' },
    { when: { country: ['NZ', 'IE'] }, weight: 100 },
  ]
  const route = routerOf({ rules, key: ['header:x-user'] }, 1)
  const cases: [string, Call, number][] = [
    ['a header among values', { headers: { 'x-canary': 'always' } }, candidate],
    ['another value, with the case of the rule', { headers: { 'x-canary': 'Always', 'x-user': 'u1' } }, stable],
    ['a cookie among cookies', { headers: { cookie: 'a=b; beta="on-2"; c=d' } }, candidate],
    ['a cookie whose name ends alike', { headers: { cookie: 'notbeta=on', 'x-user': 'u1' } }, stable],
    ['group and protocol', { groups: ['x', 'staff'], protocol: 'grpc' }, candidate],
    ['group alone', { groups: ['staff'], headers: { 'x-user': 'u1' } }, stable],
    ['a tenant that matches', { tenant: 'bank-kiwi', land: 'NZ' }, stable],
    ['a country with a weight of its own', { land: 'IE' }, candidate],
    ['an unknown country', { headers: { 'x-user': 'u1' } }, stable],
  ]
  for (const [name, call, expected] of cases) test(name, () => assert.equal(route(call).arm, expected))

  test('forced requests are not judged, those of a cohort with a weight are', () => {
    assert.equal(route({ headers: { 'x-canary': '1' } }).isForced, true)
    assert.equal(route({ tenant: 'bank-a' }).isForced, true)
    assert.equal(route({ land: 'NZ' }).isForced, false)
  })

  test('the weight 0 touches the candidate by no rule, no cohort and no echo', () => {
    const closed = routerOf({ rules, key: ['variant'] }, 0)
    for (const [, call] of cases) assert.equal(closed(call).arm, stable)
    assert.equal(closed({ headers: { [variantHeader]: 'r1/candidate/2' } }).arm, stable)
  })
})

describe('keys', () => {
  test('the first source that is there decides, and the bucket is that of SHA-256', () => {
    const route = routerOf({ key: ['header:x-user', 'parameter:user', 'principal'] }, 5000)
    const bucketFor = (key: string): number => bucketOf('r1', key)
    assert.equal(route({ headers: { 'x-user': 'a' }, principal: 'p' }).bucket, bucketFor('a'))
    assert.equal(route({ headers: { 'x-user': '' }, parameters: { user: 'b' } }).bucket, bucketFor('b'))
    assert.equal(route({ principal: 'p' }).bucket, bucketFor('p'))
    assert.equal(route({ sequence: '77' }).bucket, bucketFor('77'))
    assert.equal(route({}).bucket, null)
  })

  test('a salt of the file takes the place of the name', () => {
    const route = routerOf({ key: 'principal', salt: 'same-users' }, 5000)
    assert.equal(route({ principal: 'p' }).bucket, bucketOf('same-users', 'p'))
  })

  test('an echoed variant stays, unless it is of another rollout or a source before it is there', () => {
    const route = routerOf({ key: ['header:x-user', 'variant'] }, 1)
    assert.equal(route({ headers: { [variantHeader]: 'r1/candidate/2' } }).arm, candidate)
    assert.equal(route({ headers: { [variantHeader]: 'r1/candidate/2', 'x-user': 'u1' } }).arm, stable)
    assert.equal(routerOf({ key: ['variant'] }, 1)({ headers: { [variantHeader]: 'r0/candidate/2' }, sequence: 's' }).arm, stable) // prettier-ignore
  })

  test('without a key requests are drawn', () => {
    const route = routerOf({}, 2500)
    const share = Array.from({ length: 20_000 }, () => route({}).arm).filter((arm) => arm === candidate).length / 20_000
    assert.ok(Math.abs(share - 0.25) < 4 * Math.sqrt((0.25 * 0.75) / 20_000), String(share))
  })
})

test('arms of an experiment get their weights', () => {
  const router = new RolloutRouter({ name: 'e', salt: '', key: [{ from: 'principal' }], rules: [], arms: ['a', 'b', 'c'] }, new RandomDraws(1)) // prettier-ignore
  router.setArmWeights([5000, 3000, 2000])
  const counts = [0, 0, 0]
  for (let i = 0; i < 30_000; i++) {
    const { arm } = router.route(factsOf({ principal: `u${i}` }))
    counts[arm] = (counts[arm] as number) + 1
  }
  for (const [i, share] of [0.5, 0.3, 0.2].entries()) {
    assert.ok(Math.abs((counts[i] as number) / 30_000 - share) < 4 * Math.sqrt((share * (1 - share)) / 30_000))
  }
})

test('a baseline gets as large a share as the candidate, and grows from the other end', () => {
  const router = new RolloutRouter({ name: 'r', salt: '', key: [{ from: 'principal' }], rules: [], arms: ['stable', 'candidate', 'baseline'] }, new RandomDraws(1)) // prettier-ignore
  const users = Array.from({ length: 20_000 }, (_, i) => `u${i}`)
  const armsAt = (weight: number): number[] => {
    router.setWeight(weight)
    return users.map((principal) => router.route(factsOf({ principal })).arm)
  }
  const share = (arms: readonly number[], arm: number): number =>
    arms.filter((each) => each === arm).length / users.length
  const [small, half, most] = [armsAt(500), armsAt(5000), armsAt(8000)]
  for (const [arms, expected] of [
    [small, [0.05, 0.05]],
    [half, [0.5, 0.5]],
    [most, [0.8, 0.2]],
  ] as const) {
    assert.ok(Math.abs(share(arms, 1) - (expected[0] as number)) < 0.015)
    assert.ok(Math.abs(share(arms, 2) - (expected[1] as number)) < 0.015)
  }
  small.forEach((arm, i) => assert.ok(arm === 0 || half[i] === arm))
})
