import type { Clock } from '../base/clock.ts'
import { runInLaterSlices } from '../base/run-in-slices.ts'

/** A read of a request that runs in another thread, or in steps. After `cancel` it calls nobody any more. */
export interface Reading {
  cancel(): void
}

/** Reads a large request in slices, so that others do not wait for all of it. A request that is abandoned is read no further. */
export const slicedReading =
  <T>(clock: Clock, steps: Iterator<void, T>, isAbandoned: () => boolean = () => false) =>
  (done: (error: unknown, value: T | null) => void): Reading => {
    let isCancelled = false
    const isWanted = (): boolean => !isCancelled && !isAbandoned()
    runInLaterSlices(clock, steps, isWanted, (error, value) => {
      if (isWanted()) done(error, value)
    })
    return { cancel: () => (isCancelled = true) }
  }
