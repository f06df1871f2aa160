import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../base/clock.ts'
import type { Instance } from '../../model/backend.ts'
import { Batch } from '../../model/batch.ts'
import { BusyMeter } from './busy-meter.ts'

test('an instance is busy from its first batch to the end of its last, overlaps counted once', () => {
  const clock = new ManualClock()
  const executing: Batch[] = []
  const instance: Instance = {
    name: 'm_0',
    isReady: true,
    execute: (batch) => void executing.push(batch),
    close: () => Promise.resolve(),
  }
  const meter = new BusyMeter(clock, instance)
  const begin = (): void => instance.execute(new Batch([], 1, () => undefined))
  const end = (): void => executing.shift()?.executed()
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
  begin()
  clock.advanceUs(1)
  end()
  assert.equal(meter.busyNs(clock.nowNs()), 21_000)
})
