import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../test/fakes/manual-clock.ts'
import { runInSlices, shortSliceNs } from './run-in-slices.ts'

/** Steps of 40 µs each; resolves with the number of steps that each turn of the event loop had. */
async function stepsPerTurn(longestNs?: number): Promise<number[]> {
  const clock = new ManualClock()
  const turns = [0]
  let isDone = false
  function* steps(): Generator<void, void> {
    for (let step = 0; step < 10; step++) {
      clock.advanceUs(40)
      turns[turns.length - 1]! += 1
      yield
    }
  }
  // It comes first in every turn, because it was asked for first.
  const countTurn = (): void => {
    if (isDone) return
    turns.push(0)
    setImmediate(countTurn)
  }
  setImmediate(countTurn)
  const finished = new Promise<void>((resolve, reject) => {
    const done = (error: unknown): void => {
      isDone = true
      if (error === null) resolve()
      else reject(error)
    }
    runInSlices(clock, steps(), () => true, done, ...(longestNs === undefined ? [] : [longestNs]))
  })
  await finished
  return turns.filter((count) => count > 0)
}

test('work in short slices lets others have their turn after a tenth of a millisecond', async () => {
  assert.deepEqual(await stepsPerTurn(shortSliceNs), [3, 3, 3, 1])
})

test('work that is over within its slice is done at once', async () => {
  assert.deepEqual(await stepsPerTurn(), [10])
})
