import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import type { Instance } from '../model/backend.ts'
import { LiveCheck } from './live-check.ts'

function instanceWith(pulse: (() => Promise<boolean>) | null): Instance {
  const base = { name: 'i', isReady: true, execute: () => undefined, close: () => Promise.resolve() }
  return pulse === null ? base : { ...base, pulse }
}

function underTest(instance: Instance) {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const check = new LiveCheck({ clock, log, instances: () => [{ model: 'm', version: '1', instance }] }, 10)
  return { clock, log, check }
}

test('an instance hangs once it has shown no sign of life for longer than the timeout, and until it shows one', async () => {
  let isAlive = true
  const { clock, log, check } = underTest(instanceWith(() => Promise.resolve(isAlive)))
  await check.beat()
  isAlive = false
  clock.advanceMs(10_000)
  await check.beat()
  assert.equal(check.hung.length, 0)
  clock.advanceMs(1)
  await check.beat()
  await check.beat()
  assert.deepEqual(
    check.hung.map(({ model, instance }) => [model, instance.name]),
    [['m', 'i']],
  )
  isAlive = true
  await check.beat()
  assert.equal(check.hung.length, 0)
  assert.deepEqual(
    log.entries.map(({ message }) => message),
    ['worker hangs: it shows no sign of life', 'worker is alive again'],
  )
})

test('what has no worker cannot hang apart from the server', async () => {
  const { clock, check } = underTest(instanceWith(null))
  await check.beat()
  clock.advanceMs(60_000)
  await check.beat()
  assert.equal(check.hung.length, 0)
})

test('it asks as long as it is open', async () => {
  let asked = 0
  const { clock, check } = underTest(
    instanceWith(() => {
      asked++
      return Promise.resolve(true)
    }),
  )
  check.start()
  for (let i = 0; i < 3; i++) {
    clock.advanceMs(1000)
    await new Promise((resolve) => void setImmediate(resolve))
  }
  assert.equal(asked, 3)
  check.close()
  assert.equal(clock.pendingCount, 0)
})
