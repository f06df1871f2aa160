import assert from 'node:assert/strict'
import test from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { SystemClock } from './clock.ts'

test('a manual clock fires alarms when they come due, earliest first, and none that was taken back', () => {
  const clock = new ManualClock()
  const fired: string[] = []
  clock.after(2_000, () => fired.push('second'))
  clock.after(1_000, () => {
    fired.push('first')
    clock.after(500, () => fired.push('set by the first'))
  })
  clock.after(1_500, () => fired.push('cancelled'))()
  clock.advanceNs(999)
  assert.deepEqual(fired, [])
  clock.advanceUs(1)
  assert.deepEqual(fired, ['first', 'set by the first'])
  clock.advanceMs(1)
  assert.deepEqual(fired, ['first', 'set by the first', 'second'])
  assert.equal(clock.pendingCount, 0)
})

test('the system clock never fires before the delay has passed', async () => {
  const clock = new SystemClock()
  const startNs = clock.nowNs()
  await new Promise<void>((resolve) => clock.after(3e6, resolve))
  assert.ok(clock.nowNs() - startNs >= 3e6)
})

test('an exact wait is never early, serves other callbacks meanwhile, and can be taken back', async () => {
  const clock = new SystemClock()
  let isTaken = true
  clock.afterExactly(1e5, () => (isTaken = false))()
  for (const delayNs of [0, 2e5, 3.3e6]) {
    const startNs = clock.nowNs()
    let turns = 0
    const count = (): void => void (turns++, (turning = setImmediate(count)))
    let turning = setImmediate(count)
    await new Promise<void>((resolve) => clock.afterExactly(delayNs, resolve))
    clearImmediate(turning)
    assert.ok(clock.nowNs() - startNs >= delayNs)
    assert.ok(delayNs === 0 || turns > 0)
  }
  assert.ok(isTaken)
})
