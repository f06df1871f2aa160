import assert from 'node:assert/strict'
import { test } from 'node:test'
import { percentileOf, stabilisingUs, summarise } from './client-summary.ts'
import { bucketCount, bucketOf } from './load/latency-histogram.ts'
import type { WindowRecord } from './load/window-recorder.ts'

function recordOf(latencies: readonly number[], more: Partial<WindowRecord> = {}): WindowRecord {
  const histogram = new Uint32Array(bucketCount)
  for (const us of latencies) histogram[bucketOf(us)] = (histogram[bucketOf(us)] ?? 0) + 1
  return {
    durationMs: 1000,
    count: latencies.length,
    failed: 0,
    failures: [],
    responses: latencies.length,
    sequences: 0,
    sent: latencies.length,
    delayed: 0,
    latenciesUs: Float64Array.from(latencies),
    histogram,
    sumLatencyUs: latencies.reduce((sum, us) => sum + us, 0),
    sumSquareLatencyUs: latencies.reduce((sum, us) => sum + us * us, 0),
    sumRequestUs: 0,
    sumSendUs: 0,
    sumReceiveUs: 0,
    utilisation: 0.5,
    exported: [],
    ...more,
  }
}

test('percentiles are the nearest of the sorted values', () => {
  const sorted = Float64Array.from({ length: 101 }, (_, at) => at)
  assert.deepEqual([50, 90, 99].map((percentile) => percentileOf(sorted, percentile)), [50, 90, 99]) // prettier-ignore
  assert.equal(percentileOf(Float64Array.of(7), 99), 7)
  assert.equal(percentileOf(Float64Array.of(1, 2), 50), 2)
  assert.equal(percentileOf(new Float64Array(0), 50), 0)
})

test('threads of a window add up beside each other, windows one after another', () => {
  const window = [recordOf([100, 200]), recordOf([300])]
  const one = summarise([window], 1, null)
  assert.equal(one.inferPerSecond, 3)
  assert.equal(one.averageUs, 200)
  assert.equal(one.deviationUs, 100)
  const two = summarise([window, window], 4, 75)
  assert.equal(two.durationMs, 2000)
  assert.equal(two.inferPerSecond, 12)
  assert.deepEqual([...two.percentilesUs.keys()], [50, 75, 90, 95, 99])
  assert.equal(stabilisingUs(two, 75), two.percentilesUs.get(75))
  assert.equal(stabilisingUs(two, null), 200)
})

test('a batch counts for inferences, not for responses and not for requests sent', () => {
  const summary = summarise([[recordOf([100, 200], { responses: 6, sent: 2 })]], 8, null)
  assert.equal(summary.inferPerSecond, 16)
  assert.equal(summary.responsesPerSecond, 6)
  assert.equal(summary.sentPerSecond, 2)
})

test('failures are put together by their text, the most frequent first', () => {
  const summary = summarise(
    [
      [recordOf([1], { failed: 3, failures: [['a', 1], ['b', 2]] })],
      [recordOf([1], { failed: 4, failures: [['a', 4]] })],
    ],
    1,
    null,
  ) // prettier-ignore
  assert.equal(summary.failedCount, 7)
  assert.deepEqual(summary.failures, [['a', 5], ['b', 2]]) // prettier-ignore
})

test('when not every value could be kept, percentiles come from the histogram', () => {
  const record = recordOf([100, 200, 300], { latenciesUs: Float64Array.of(100) })
  const p99 = summarise([[record]], 1, null).percentilesUs.get(99) ?? 0
  assert.ok(p99 >= 300 && p99 < 312, String(p99))
})
