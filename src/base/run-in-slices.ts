// Long work on the main thread, a slice at a time. All such work shares the turns of the event loop: one slice each, however
// many clients ask for it.

import type { Clock } from './clock.ts'
import { RingQueue } from './ring-queue.ts'
import { ServerError } from './server-error.ts'

/** How long the main thread works on one thing before others have their turn. */
const sliceNs = 4e6
/** For work that comes tens of times a second: a small request that arrives meanwhile waits no longer than a few small requests would take. */
export const shortSliceNs = 1e5

/** There is one event loop, so there is one queue for its turns. */
const waiting = new RingQueue<() => void>()

/** Does a slice of work at once when nothing else waits for that, else when its turn has come. */
export function takeTurn(slice: () => void): void {
  if (waiting.size === 0) slice()
  else waiting.push(slice)
}

/** Does a slice of work in a later turn of the event loop, behind all others that wait. */
export function waitTurn(slice: () => void): void {
  if (waiting.size === 0) setImmediate(nextTurn)
  waiting.push(slice)
}

function nextTurn(): void {
  // The slice stays in the queue while it runs, so that what begins meanwhile waits.
  const slice = waiting.peek()
  try {
    slice?.()
  } finally {
    waiting.take()
    if (waiting.size > 0) setImmediate(nextTurn)
  }
}

/**
 * Does work step by step, with a look at the event loop between slices. Short work is over when this function returns,
 * unless other work waits. Work that is not wanted any more fails with CANCELLED. `done` is called exactly once.
 */
export function runInSlices<T>(
  clock: Clock,
  steps: Iterator<void, T>,
  isWanted: () => boolean,
  done: (error: unknown, value: T | null) => void,
  longestNs: number = sliceNs,
): void {
  takeTurn(slicesOf(clock, steps, isWanted, done, longestNs))
}

/** The same, but the first slice, too, waits for a later turn of the event loop. */
export function runInLaterSlices<T>(
  clock: Clock,
  steps: Iterator<void, T>,
  isWanted: () => boolean,
  done: (error: unknown, value: T | null) => void,
): void {
  waitTurn(slicesOf(clock, steps, isWanted, done, sliceNs))
}

/** Does the next slice, and sees to it that the others follow. */
function slicesOf<T>(
  clock: Clock,
  steps: Iterator<void, T>,
  isWanted: () => boolean,
  done: (error: unknown, value: T | null) => void,
  longestNs: number,
): () => void {
  const runSlice = (): void => {
    let result: IteratorResult<void, T>
    try {
      if (!isWanted()) throw ServerError.withoutStack('CANCELLED', 'Request Cancelled')
      const untilNs = clock.nowNs() + longestNs
      result = steps.next()
      while (result.done !== true && clock.nowNs() < untilNs) result = steps.next()
    } catch (reason) {
      done(reason, null)
      return
    }
    if (result.done === true) done(null, result.value)
    else waitTurn(runSlice)
  }
  return runSlice
}

const always = (): boolean => true

/** The same as a promise, which rejects with a ServerError. */
export function inSlices<T>(
  clock: Clock,
  steps: Iterator<void, T>,
  isWanted: () => boolean = always,
  longestNs: number = sliceNs,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const done = (error: unknown, value: T | null): void => {
      if (error === null) resolve(value as T)
      else reject(ServerError.from(error))
    }
    runInSlices(clock, steps, isWanted, done, longestNs)
  })
}

/** All steps at once, for work that is short. */
export function lastOf<T>(steps: Iterator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}
