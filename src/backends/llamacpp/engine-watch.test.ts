import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../test/fakes/manual-clock.ts'
import { EngineWatch } from './engine-watch.ts'

test('an engine whose thread computes on without an answer hangs, one that waits or answers does not', async () => {
  const clock = new ManualClock()
  let usedMs = 0
  let asked = 0
  let hangs = 0
  const watch = new EngineWatch(clock, { ask: () => asked++, threadMs: async () => usedMs, hangs: () => hangs++ })
  const look = async (spentMs: number): Promise<void> => {
    usedMs += spentMs
    clock.advanceMs(2000)
    await new Promise(setImmediate)
  }
  watch.start()
  await look(0)
  assert.equal(asked, 1)
  // A machine that gives the engine no time is no fault of the engine.
  for (let i = 0; i < 100; i++) await look(50)
  assert.deepEqual([asked, hangs], [1, 0])
  watch.answered()
  await look(60_000)
  assert.deepEqual([asked, hangs], [2, 0])
  await look(10_001)
  assert.equal(hangs, 1)
})
