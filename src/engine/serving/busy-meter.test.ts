import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { Batch } from '../../model/batch.ts'
import { BusyMeter } from './busy-meter.ts'
import { HeldInstance } from '../../../test/fakes/held-instance.ts'

test('an instance is busy from its first batch to the end of its last, overlaps counted once', () => {
  const clock = new ManualClock()
  const instance = new HeldInstance('m_0')
  instance.prefetchDepth = 1
  const meter = new BusyMeter(clock, instance)
  const begin = (): void => instance.execute(new Batch([], 1, () => undefined))
  const end = (): void => instance.finish()
  begin()
  clock.advanceUs(10)
  begin()
  clock.advanceUs(5)
  end()
  assert.equal(meter.busyNs(clock.nowNs()), 15_000, 'what still executes counts up to now')
  clock.advanceUs(5)
  end()
  clock.advanceUs(100)
  assert.equal(meter.busyNs(clock.nowNs()), 20_000)
  const earlierNs = clock.nowNs()
  clock.advanceUs(3)
  begin()
  assert.equal(meter.busyNs(earlierNs), 20_000, 'a page that was begun before the batch does not go back')
  clock.advanceUs(1)
  end()
  assert.equal(meter.busyNs(clock.nowNs()), 21_000)
})
