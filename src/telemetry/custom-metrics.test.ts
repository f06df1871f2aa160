import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CustomMetricRegistry } from './custom-metrics.ts'

const labels = (entries: Record<string, string>): ReadonlyMap<string, string> => new Map(Object.entries(entries))

test('the same labels in a family are one series, which lives until each of its makers removed it', () => {
  const metrics = new CustomMetricRegistry()
  metrics.createFamily('orders', 'Orders taken', 'counter')
  const first = metrics.createMetric('orders', labels({ b: '2', a: '1' }), null)
  const second = metrics.createMetric('orders', labels({ a: '1', b: '2' }), null)
  metrics.increment(first, 2)
  metrics.increment(second, 0.5)
  assert.equal(metrics.value(first), 2.5)
  const [family] = [...metrics.families()]
  assert.deepEqual([...(family?.series.values() ?? [])][0]?.labels, [
    ['a', '1'],
    ['b', '2'],
  ])
  metrics.remove(first)
  metrics.remove(first)
  assert.equal(family?.series.size, 1)
  metrics.remove(second)
  assert.equal(family?.series.size, 0)
  assert.throws(() => metrics.value(second), /Metric has been deleted/)
})

test('each kind refuses what it cannot do', () => {
  const metrics = new CustomMetricRegistry()
  metrics.createFamily('c', '', 'counter')
  metrics.createFamily('g', '', 'gauge')
  metrics.createFamily('h', '', 'histogram')
  const counter = metrics.createMetric('c', labels({}), null)
  const gauge = metrics.createMetric('g', labels({}), null)
  assert.throws(() => metrics.increment(counter, -1), /can only be incremented monotonically/)
  assert.throws(() => metrics.set(counter, 1), /TRITONSERVER_METRIC_KIND_COUNTER does not support Set/)
  metrics.set(gauge, 5)
  metrics.increment(gauge, -7)
  assert.equal(metrics.value(gauge), -2)
  assert.throws(() => metrics.createMetric('h', labels({}), null), /buckets must be given/)
  assert.throws(() => metrics.createMetric('h', labels({}), [2, 1]), /must ascend/)
  const histogram = metrics.createMetric('h', labels({}), [1, 5])
  for (const value of [0, 1, 1.5, 5, 6]) metrics.observe(histogram, value)
  assert.throws(() => metrics.value(histogram), /does not support Value/)
  const family = [...metrics.families()].find(({ name }) => name === 'h')
  const [series] = [...(family?.series.values() ?? [])]
  assert.deepEqual([series?.counts, series?.sum], [[2, 2, 1], 13.5])
})

test('a family keeps its kind, and names are checked', () => {
  const metrics = new CustomMetricRegistry()
  metrics.createFamily('a', 'first', 'counter')
  metrics.createFamily('a', 'second', 'counter')
  assert.equal([...metrics.families()][0]?.description, 'first')
  assert.throws(() => metrics.createFamily('a', '', 'gauge'), /Family name already exists with different type/)
  assert.throws(() => metrics.createFamily('1 bad', '', 'gauge'), /Invalid metric name: '1 bad'/)
  assert.throws(() => metrics.createMetric('a', labels({ 'x-y': '1' }), null), /Invalid label name: 'x-y'/)
  assert.throws(() => metrics.createMetric('b', labels({}), null), /metric family 'b' does not exist/)
})

test('a model cannot have a family of the name of one of the server', () => {
  const metrics = new CustomMetricRegistry()
  for (const name of ['nv_inference_count', 'galatea_ready', 'nv_gpu_utilization']) {
    assert.throws(() => metrics.createFamily(name, 'mine', 'gauge'), { code: 'INVALID_ARG', message: /own/ })
  }
})
