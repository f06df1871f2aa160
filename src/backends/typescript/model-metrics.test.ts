import assert from 'node:assert/strict'
import test from 'node:test'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { CustomMetrics } from '../../model/custom-metrics.ts'
import { createMetrics } from './model-metrics.ts'
import { WorkerMetrics } from './worker-metrics.ts'

/** Remembers what it was told, in words. */
function recorded() {
  const calls: string[] = []
  let count = 0
  const note =
    (name: string) =>
    (...args: unknown[]): void =>
      void calls.push(`${name} ${args.join(' ')}`)
  const metrics: CustomMetrics = {
    createFamily: (name, description, kind) => {
      if (name === 'taken') throw new ServerError('INVALID_ARG', 'is another’s')
      note('family')(name, description, kind)
    },
    createMetric: (family, labels, buckets) => {
      note('metric')(family, JSON.stringify([...labels]), JSON.stringify(buckets))
      return 100 + count++
    },
    increment: note('increment'),
    set: note('set'),
    observe: note('observe'),
    value: () => 0,
    remove: note('remove'),
  }
  const log = new MemoryLog()
  const server = new WorkerMetrics(metrics, log)
  return { calls, log, server, model: createMetrics((message) => server.take(structuredClone(message))) }
}

test('what a model does to its metrics is done on the server, and ends with the Worker', () => {
  const { calls, server, model } = recorded()
  const counter = model.counter('orders_total', 'Orders', { shop: 'north' })
  const gauge = model.gauge('stock', 'In stock')
  const histogram = model.histogram('price', 'Prices', [1, 10])
  counter.increment()
  counter.increment(2.5)
  gauge.set(7)
  gauge.increment(-1)
  histogram.observe(3)
  server.close()
  server.close()
  assert.deepEqual(calls, [
    'family orders_total Orders counter',
    'metric orders_total [["shop","north"]] null',
    'family stock In stock gauge',
    'metric stock [] null',
    'family price Prices histogram',
    'metric price [] [1,10]',
    'increment 100 1',
    'increment 100 2.5',
    'set 101 7',
    'increment 101 -1',
    'observe 102 3',
    'remove 100',
    'remove 101',
    'remove 102',
  ])
})

test('a metric that the server will not have is told of once, and the model goes on', () => {
  const { calls, log, model } = recorded()
  const counter = model.counter('taken', 'Mine')
  counter.increment()
  counter.increment()
  assert.deepEqual(calls, [])
  assert.deepEqual(
    log.entries.map(({ level, fields }) => [level, fields['metric'], fields['reason']]),
    [['error', 'taken', 'is another’s']],
  )
})

test('what is not a number, or takes a counter back, is the model’s mistake', () => {
  const { model } = recorded()
  const counter = model.counter('orders_total', 'Orders')
  assert.throws(() => counter.increment(-1), /of 0 or more, got -1/)
  assert.throws(() => counter.increment(NaN), TypeError)
  assert.throws(() => model.gauge('stock', '').set('7' as unknown as number), TypeError)
})
