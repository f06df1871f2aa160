import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { bucketOf, fullWeight, laneOf, RandomDraws, StickyBuckets, type Lane } from './assignment.ts'

/** Four standard deviations of a share of `count` draws. */
const chance = (share: number, count: number): number => 4 * Math.sqrt((share * (1 - share)) / count)

describe('the bucket of a key', () => {
  test('is the one that shell, SQL and HAProxy work out', () => {
    assert.equal(bucketOf('rollout-1', 'user-42'), 9999)
  })

  test('equals whole-number arithmetic on SHA-256, for a million keys', () => {
    for (let i = 0; i < 1_000_000; i++) {
      const digest = hash('sha256', `salt:user-${i}`, 'buffer')
      const expected = Number((BigInt(digest.readUInt32BE(0)) * 10_000n) >> 32n)
      const ours = bucketOf('salt', `user-${i}`)
      if (ours !== expected) assert.equal(ours, expected, `user-${i}`)
    }
  })

  test('equals the program sha256sum, for a thousand keys of any characters', () => {
    const keys = fc.sample(fc.string({ unit: 'binary', maxLength: 40 }), { numRuns: 1000, seed: 18 })
    const folder = mkdtempSync(path.join(tmpdir(), 'galatea-keys-'))
    try {
      keys.forEach((key, i) => writeFileSync(path.join(folder, String(i)), `salt:${key}`))
      const { stdout, status } = spawnSync('sha256sum', keys.map((_, i) => String(i)), { cwd: folder, encoding: 'utf8' }) // prettier-ignore
      assert.equal(status, 0)
      stdout
        .trimEnd()
        .split('\n')
        .forEach((line, i) => {
          const expected = Number((BigInt(`0x${line.slice(0, 8)}`) * 10_000n) >> 32n)
          assert.equal(bucketOf('salt', keys[i] as string), expected, JSON.stringify(keys[i]))
        })
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('is the same from the cache, whose size has a bound', () => {
    const buckets = new StickyBuckets('s')
    for (let i = 0; i < 30_000; i++) {
      const key = `k${i % 10_000}`
      if (buckets.bucket(key) !== bucketOf('s', key)) assert.fail(key)
    }
    assert.ok(buckets.keptKeys <= 8192, String(buckets.keptKeys))
    const before = buckets.keptKeys
    buckets.bucket('x'.repeat(100_000))
    assert.equal(buckets.keptKeys, before)
  })
})

describe('shares', () => {
  test('of sticky keys and of draws are within four standard deviations of the weight', () => {
    const count = 200_000
    const keyed = Array.from({ length: count }, (_, i) => bucketOf('r', `user-${i}`))
    const draws = new RandomDraws(1)
    const drawn = Array.from({ length: count }, () => draws.bucket())
    for (const weight of [1, 100, 500, 2500, 5000, 9999]) {
      for (const buckets of [keyed, drawn]) {
        const share = buckets.filter((bucket) => laneOf([{ weight, cap: fullWeight }], bucket) === 0).length / count
        assert.ok(Math.abs(share - weight / fullWeight) <= chance(weight / fullWeight, count), `${weight}: ${share}`)
      }
    }
  })

  test('of two salts are independent: the candidate of one rollout is not the candidate of the next', () => {
    const count = 100_000
    let both = 0
    for (let i = 0; i < count; i++) if (bucketOf('a', `u${i}`) < 2000 && bucketOf('b', `u${i}`) < 2000) both++
    assert.ok(Math.abs(both / count - 0.04) <= chance(0.04, count))
  })

  test('0 reaches nobody and 10,000 everybody', () => {
    for (let bucket = 0; bucket < fullWeight; bucket++) {
      assert.equal(laneOf([{ weight: 0, cap: fullWeight }], bucket), -1)
      assert.equal(laneOf([{ weight: fullWeight, cap: fullWeight }], bucket), 0)
    }
  })
})

test('a weight that grows moves no key away from its arm, with any number of arms', () => {
  const caps = fc
    .array(fc.integer({ min: 0, max: 5000 }), { minLength: 1, maxLength: 8 })
    .filter((all) => all.reduce((sum, cap) => sum + cap) <= fullWeight)
  const percent = fc.integer({ min: 0, max: 100 })
  const cases = caps.chain((all) =>
    fc.record({
      caps: fc.constant(all),
      shares: fc.array(fc.tuple(percent, percent), {
        minLength: all.length,
        maxLength: all.length,
      }),
      bucket: fc.integer({ min: 0, max: fullWeight - 1 }),
    }),
  )
  fc.assert(
    fc.property(cases, ({ caps: all, shares, bucket }) => {
      const lanes = (pick: (pair: readonly [number, number]) => number): Lane[] =>
        all.map((cap, i) => ({ cap, weight: Math.floor((cap * pick(shares[i] as [number, number])) / 100) }))
      const before = laneOf(lanes(([a, b]) => Math.min(a, b)), bucket) // prettier-ignore
      const after = laneOf(lanes(([a, b]) => Math.max(a, b)), bucket) // prettier-ignore
      assert.ok(before === -1 || before === after, `${before} → ${after}`)
    }),
    { numRuns: 2000 },
  )
})

test('draws repeat with their seed, and differ between seeds', () => {
  const first = (seed: number): number[] => {
    const draws = new RandomDraws(seed)
    return Array.from({ length: 5 }, () => draws.next())
  }
  assert.deepEqual(first(7), first(7))
  assert.notDeepEqual(first(7), first(8))
  assert.ok(first(0).every((draw) => Number.isInteger(draw) && draw >= 0 && draw < 2 ** 32))
  const share = new RandomDraws(3).share()
  assert.ok(share >= 0 && share < 1)
})
