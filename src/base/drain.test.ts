import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Drain } from './drain.ts'

/** Work that is counted, and what each waiter has been told so far. */
function drainUnderTest(): {
  readonly drain: Drain
  readonly begin: () => void
  readonly end: () => void
  readonly told: string[]
  readonly watch: (name: string, ended: Promise<void>) => void
} {
  let running = 0
  const told: string[] = []
  const drain = new Drain(() => running === 0)
  return {
    drain,
    begin: () => running++,
    end: () => {
      running--
      drain.check()
    },
    told,
    watch: (name, ended) => void ended.then(() => told.push(name)),
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('draining refuses at once and resolves when the last work has ended', async () => {
  const { drain, begin, end, told, watch } = drainUnderTest()
  begin()
  begin()
  assert.equal(drain.isRefusing, false)
  watch('drained', drain.drained())
  assert.equal(drain.isRefusing, true)
  end()
  await turn()
  assert.deepEqual(told, [])
  end()
  await turn()
  assert.deepEqual(told, ['drained'])
})

test('what has no work under way is drained at once', async () => {
  await drainUnderTest().drain.drained()
})

test('who drains a second time is told as well', async () => {
  const { drain, begin, end, told, watch } = drainUnderTest()
  begin()
  watch('first', drain.drained())
  watch('second', drain.drained())
  end()
  await turn()
  assert.deepEqual(told, ['first', 'second'])
})

test('who waits for the idle moment refuses nothing, and may wait again', async () => {
  const { drain, begin, end, told, watch } = drainUnderTest()
  begin()
  watch('first', drain.idle())
  end()
  begin()
  watch('second', drain.idle())
  await turn()
  assert.equal(drain.isRefusing, false)
  assert.deepEqual(told, ['first'])
  end()
  await turn()
  assert.deepEqual(told, ['first', 'second'])
})
