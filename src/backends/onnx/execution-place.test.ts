import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { nextEstimateUs, nextPlace, PlaceByTime, sizeKey } from './execution-place.ts'

const observe = (place: PlaceByTime, count: number, us: number, bytes = 128): void => {
  for (let i = 0; i < count; i++) place.observe(bytes, us * 1000)
}

test('a model begins offloaded and goes inline once three runs were short', () => {
  const place = new PlaceByTime(100, null)
  observe(place, 2, 5)
  assert.equal(place.placeFor(128, 0), 'offloaded')
  observe(place, 1, 5)
  assert.equal(place.placeFor(128, 0), 'inline')
})

test('slow first runs do not keep a fast model offloaded', () => {
  const place = new PlaceByTime(100, null)
  for (const us of [5000, 900, 400, 5, 5, 5]) observe(place, 1, us)
  assert.equal(place.placeFor(128, 0), 'inline')
})

test('one pause of the machine does not move an inline model, lasting slowness does', () => {
  const place = new PlaceByTime(100, null)
  observe(place, 10, 5)
  observe(place, 1, 4000)
  assert.equal(place.placeFor(128, 0), 'inline')
  observe(place, 20, 4000)
  assert.equal(place.placeFor(128, 0), 'offloaded')
})

test('between the limit and one and a half limits a model stays where it is', () => {
  fc.assert(
    fc.property(fc.double({ min: 100, max: 150, noNaN: true }), fc.constantFrom('inline', 'offloaded'), (us, where) => {
      assert.equal(nextPlace(where, us, 100, 100), where)
    }),
  )
})

test('the estimate stays between what was measured', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 1, max: 390, noNaN: true }), { minLength: 1 }), (samples) => {
      let estimate = 0
      for (const [count, sample] of samples.entries()) estimate = nextEstimateUs(estimate, sample, count, 100)
      assert.ok(estimate >= Math.min(...samples) - 1e-9 && estimate <= Math.max(...samples) + 1e-9)
    }),
  )
})

test('a run that stalled the main thread moves its size off it, for longer each time', () => {
  let cpuUs = 0
  const place = new PlaceByTime(100, null, () => (cpuUs += 14_000))
  observe(place, 100, 5)
  observe(place, 100, 5, 256)
  observe(place, 1, 5001)
  assert.equal(place.placeFor(128, 0), 'offloaded')
  assert.equal(place.placeFor(256, 0), 'inline')
  observe(place, 9_000, 5)
  assert.equal(place.placeFor(128, 0), 'offloaded')
  observe(place, 1_100, 5)
  assert.equal(place.placeFor(128, 0), 'inline')
  observe(place, 1, 1e6)
  observe(place, 70_000, 5)
  assert.equal(place.placeFor(128, 0), 'offloaded')
})

test('a long run without CPU time is a pause of the machine, and its size stays inline', () => {
  const place = new PlaceByTime(100, null, () => 0)
  observe(place, 100, 5)
  assert.equal(place.placeFor(128, 2e6), 'inline')
  observe(place, 1, 20_000)
  assert.equal(place.placeFor(128, 4e6), 'inline')
})

test('shapes are told apart, and the number of sizes that are known is bounded', () => {
  const input = (shape: number[]) => [{ shape, bytes: new Uint8Array(64) }]
  assert.notEqual(sizeKey(input([1, 16])), sizeKey(input([16, 1])))
  assert.equal(sizeKey(input([1, 9])), sizeKey(input([1, 15])))
  assert.notEqual(sizeKey(input([1, 16])), sizeKey([{ shape: [1, 16], bytes: new Uint8Array(4096) }]))
  const place = new PlaceByTime(100, null)
  for (let size = 0; size < 300; size++) observe(place, 10, 5, size)
  assert.equal(place.placeFor(0, 0), 'inline')
  assert.equal(place.placeFor(299, 0), 'offloaded')
})

test('a large batch is judged by its own times, not by those of a small one', () => {
  const place = new PlaceByTime(100, null)
  observe(place, 10, 5, 128)
  assert.equal(place.placeFor(128, 0), 'inline')
  assert.equal(place.placeFor(1 << 20, 0), 'offloaded')
  assert.equal(place.placeFor(2 ** 40, 0), 'offloaded')
})

test('a place that is fixed is not moved by what is measured', () => {
  const inline = new PlaceByTime(100, 'inline')
  observe(inline, 50, 1e6)
  assert.equal(inline.placeFor(1, 0), 'inline')
  const offloaded = new PlaceByTime(100, 'offloaded')
  observe(offloaded, 50, 1)
  assert.equal(offloaded.placeFor(1, 0), 'offloaded')
})
