import assert from 'node:assert/strict'
import test from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { ExactWaits } from './exact-waits.ts'
import { openSystemAlarm, type Alarm } from './system-alarm.ts'

/** An alarm that rings when the test says so, and a clock that the test moves. */
function createWaits(hasAlarm = true) {
  const state = { nowNs: 0, readings: 0, isAlive: false, set: [] as number[], ring: () => undefined as void }
  const alarm: Alarm = {
    set: (delayNs) => void state.set.push(state.nowNs + delayNs),
    keepAlive: (isWanted) => void (state.isAlive = isWanted),
  }
  const readNs = (): number => (state.readings++, state.nowNs)
  const waits = new ExactWaits(readNs, (ring) => ((state.ring = ring), hasAlarm ? alarm : null))
  return { waits, state }
}

test('a wait sleeps until the alarm, which rings shortly before the end; then the loop turns', async () => {
  const { waits, state } = createWaits()
  const fired: number[] = []
  waits.add(500e3, () => fired.push(state.nowNs))
  const [at = 0] = state.set
  assert.ok(at >= 500e3 - 80e3 && at < 500e3, `the alarm was set to ${at} ns`)
  const readings = state.readings
  for (let i = 0; i < 5; i++) await turn()
  assert.equal(state.readings, readings, 'the loop does not turn for a wait that sleeps')
  state.nowNs = at + 1e3
  state.ring()
  await turn()
  assert.deepEqual(fired, [], 'never early')
  state.nowNs = 500e3
  await turn()
  await turn()
  assert.deepEqual(fired, [500e3])
  assert.equal(state.isAlive, false)
})

test('a wait that may end early ends with the alarm, and the loop does not turn for it', () => {
  const { waits, state } = createWaits()
  const fired: number[] = []
  waits.add(500e3, () => fired.push(state.nowNs), 50e3)
  const [at = 0] = state.set
  state.nowNs = at + 1e3
  state.ring()
  assert.deepEqual(fired, [at + 1e3])
  assert.ok(at + 1e3 >= 450e3 && at + 1e3 < 500e3, `${at}`)
  assert.equal(state.isAlive, false)
})

test('an alarm that rings earlier than a wait may end fires nothing', async () => {
  const { waits, state } = createWaits()
  let isOver = false
  waits.add(500e3, () => (isOver = true), 5e3)
  state.nowNs = 494e3
  state.ring()
  assert.equal(isOver, false)
  state.nowNs = 495e3
  await turn()
  assert.ok(isOver)
})

test('the head start follows how late the alarm comes, and stays within its bounds on a busy machine', async () => {
  const { waits, state } = createWaits()
  const headStartAfter = async (lateNs: number): Promise<number> => {
    let headStartNs = 0
    for (let i = 0; i < 200; i++) {
      const dueNs = state.nowNs + 1e6
      waits.add(dueNs, () => undefined)
      const ringsNs = state.set.at(-1) ?? 0
      headStartNs = dueNs - ringsNs
      state.nowNs = ringsNs + lateNs
      state.ring()
      state.nowNs = Math.max(state.nowNs, dueNs)
      await turn()
    }
    return headStartNs
  }
  const busy = await headStartAfter(20e6)
  assert.ok(busy <= 80e3 && busy > 70e3, `${busy}`)
  const quick = await headStartAfter(5e3)
  assert.ok(quick >= 4e3 && quick < 6e3, `${quick}`)
})

test('a later wait does not move the alarm, an earlier one does, and an alarm for a wait that was taken back fires nothing', async () => {
  const { waits, state } = createWaits()
  const fired: string[] = []
  const take = waits.add(500e3, () => fired.push('taken back'))
  take()
  assert.equal(state.isAlive, false)
  waits.add(900e3, () => fired.push('late'))
  assert.equal(state.set.length, 1)
  waits.add(200e3, () => fired.push('early'))
  assert.equal(state.set.length, 2)
  state.nowNs = 500e3
  state.ring()
  assert.deepEqual(fired, ['early'])
  assert.equal(state.set.length, 3, 'the alarm is set for the wait that is left')
  state.nowNs = 900e3
  state.ring()
  assert.deepEqual(fired, ['early', 'late'])
})

test('of waits that are due together the earliest fires first, and may take the next back', () => {
  const { waits, state } = createWaits()
  const fired: string[] = []
  const takeSecond = waits.add(600e3, () => fired.push('second'))
  waits.add(500e3, () => {
    fired.push('first')
    takeSecond()
  })
  state.nowNs = 700e3
  state.ring()
  assert.deepEqual(fired, ['first'])
})

test('without an alarm a wait still ends, and not early', async () => {
  const { waits, state } = createWaits(false)
  let isOver = false
  waits.add(100e3, () => (isOver = true))
  await turn()
  await turn()
  assert.equal(isOver, false)
  state.nowNs = 100e3
  await turn()
  await turn()
  assert.ok(isOver)
})

test('an error of one wait leaves the others waiting', async () => {
  const { waits, state } = createWaits()
  let isOver = false
  waits.add(500e3, () => {
    throw new Error('broken')
  })
  waits.add(600e3, () => (isOver = true))
  state.nowNs = 500e3
  assert.throws(() => state.ring(), /broken/)
  state.nowNs = 600e3
  state.ring()
  assert.ok(isOver)
})

test(
  'the alarm of Linux rings once for each time that it is set, and not early',
  { skip: process.platform !== 'linux' },
  async () => {
    let onRing = (): void => undefined
    const alarm = openSystemAlarm(() => onRing())
    assert.ok(alarm !== null)
    alarm.keepAlive(true)
    for (const delayNs of [0, 150e3, 1.5e6, 1.001e9]) {
      const started = performance.now()
      await new Promise<void>((resolve) => {
        onRing = resolve
        alarm.set(delayNs)
      })
      assert.ok((performance.now() - started) * 1e6 >= delayNs)
    }
    alarm.keepAlive(false)
  },
)
