import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Gcra } from './gcra.ts'

/** A bucket that refills: the same limit, told another way. */
class Bucket {
  readonly #perNs: number
  readonly #burst: number
  #level: number
  #atNs = 0

  constructor(amount: number, periodNs: number, burst: number) {
    this.#perNs = amount / periodNs
    this.#burst = burst
    this.#level = burst
  }

  tryTake(nowNs: number, units: number): boolean {
    this.#level = Math.min(this.#burst, this.#level + (nowNs - this.#atNs) * this.#perNs)
    this.#atNs = nowNs
    if (this.#level + 1e-6 < units) return false
    this.#level -= units
    return true
  }
}

test('a rate admits what a bucket that refills admits, and says how long to wait', () => {
  const steps = fc.array(
    fc.record({ waitMs: fc.integer({ min: 0, max: 3000 }), units: fc.integer({ min: 1, max: 5 }) }),
  )
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 5, max: 60 }), steps, (amount, burst, calls) => {
      const [rate, bucket] = [new Gcra(amount, 1e9, burst), new Bucket(amount, 1e9, burst)]
      let nowNs = 0
      for (const { waitMs, units } of calls) {
        nowNs += waitMs * 1e6
        const waitNs = rate.waitNs(nowNs, units)
        // Both round: what is there to a millionth of a unit may go either way.
        if (waitNs > 0 && waitNs < 1000) return
        assert.equal(waitNs === 0, bucket.tryTake(nowNs, units))
        if (waitNs === 0) rate.take(nowNs, units)
        else assert.equal(rate.waitNs(nowNs + waitNs + 1, units), 0)
      }
    }),
  )
})

test('in a long time no more than the rate and one burst is admitted', () => {
  const rate = new Gcra(100, 1e9, 200)
  let admitted = 0
  for (let ms = 0; ms <= 60_000; ms++) {
    for (let i = 0; i < 3; i++) {
      if (rate.waitNs(ms * 1e6, 1) > 0) continue
      rate.take(ms * 1e6, 1)
      admitted++
    }
  }
  assert.equal(admitted, 6200)
})

test('what was used without asking is owed', () => {
  const rate = new Gcra(10, 1e9, 10)
  rate.take(0, 25)
  assert.ok(Math.abs(rate.waitNs(0, 1) - 1.6e9) < 1)
  assert.equal(rate.waitNs(1.61e9, 1), 0)
})
