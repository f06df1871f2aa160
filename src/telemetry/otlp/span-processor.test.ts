import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import type { Span } from './span.ts'
import { SpanProcessor } from './span-processor.ts'

const span: Span = {
  traceId: 'a'.repeat(32),
  spanId: 'b'.repeat(16),
  parentSpanId: '',
  traceState: '',
  name: 'm',
  originNs: 0n,
  startNs: 1,
  endNs: 2,
  attributes: [],
  events: [],
  error: null,
}

/** A collector that takes what it is told to, and a processor with room for four spans, two to a batch. */
function underTest() {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const collector = { isUp: true, exports: 0, isClosed: false }
  const exporter = {
    send: () => {
      if (!collector.isUp) return Promise.reject(new Error('away'))
      collector.exports++
      return Promise.resolve()
    },
    close: () => void (collector.isClosed = true),
  }
  const options = { url: 'u', resource: [], maxQueueSize: 4, scheduleDelayMs: 100, maxExportBatchSize: 2 }
  return { clock, log, collector, processor: new SpanProcessor({ clock, log, exporter }, options) }
}

const settle = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

test('a batch leaves when it is full, and what is less when the delay is over', async () => {
  const { clock, collector, processor } = underTest()
  processor.add(span)
  assert.equal(collector.exports, 0)
  processor.add(span)
  assert.equal(collector.exports, 1)
  await settle()
  processor.add(span)
  clock.advanceMs(99)
  assert.equal(collector.exports, 1)
  clock.advanceMs(1)
  await settle()
  assert.equal(collector.exports, 2)
  assert.equal(processor.exportedCount, 3)
})

test('a collector that is away is told of once, tried again, and then the batch is lost', async () => {
  const { clock, log, collector, processor } = underTest()
  collector.isUp = false
  for (let i = 0; i < 7; i++) processor.add(span)
  assert.equal(processor.overflowCount, 1, 'two are being sent, four wait, one has no room')
  for (const delayMs of [0, 1000, 2000, 4000]) {
    clock.advanceMs(delayMs)
    await settle()
  }
  assert.equal(processor.failedCount, 2)
  assert.deepEqual(
    log.entries.map(({ message }) => message),
    ['traces do not reach their collector'],
  )
  collector.isUp = true
  clock.advanceMs(1000)
  await settle()
  await processor.close(1000)
  assert.equal(processor.exportedCount, 4)
  assert.equal(log.entries.at(-1)?.message, 'traces reach their collector again')
})

test('at the end what waits is sent, for no longer than the limit', async () => {
  const { collector, processor } = underTest()
  processor.add(span)
  await processor.close(1000)
  assert.equal(processor.exportedCount, 1)
  assert.equal(collector.isClosed, true)
  processor.add(span)
  assert.equal(processor.overflowCount, 1)
  const away = underTest()
  away.collector.isUp = false
  away.processor.add(span)
  await away.processor.close(1000)
  assert.equal(away.processor.failedCount, 1)
  assert.equal(away.clock.pendingCount, 0)
})
