// Gives memory that is no longer needed back to the system in quiet moments: after the start, and after traffic or changes of
// models. V8 keeps garbage until it needs the room, and malloc keeps what was freed: 24 reloads of a Python model under load left
// 195 MB, of which 113 MB held nothing.

import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { loadKoffi } from '../base/koffi.ts'

const checkMs = 500
/** The share of time between two checks. A server that is busier than this should not pause. */
const idleUtilization = 0.1
/** A server that is busy at all these checks after its start needs its memory and its warm code, so nothing is given back. */
const startChecks = 4
const laterCheckMs = 2000
/** How much the process must have grown since memory was last given back, for a pause to be worth it. */
const grownBytes = 16 * 1024 * 1024
/**
 * A server with steady traffic has no quiet moment. What malloc keeps goes back at this share of time, too: a pause of a few
 * milliseconds, and longer and longer waits between pauses that give nothing back. V8 collects by itself while there is traffic.
 */
const steadyUtilization = 0.5
const grownUnderTrafficBytes = 32 * 1024 * 1024
const leastTrimWaitMs = 6000
const mostTrimWaitMs = 300_000

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void

/** A pause of about 50 ms in a quiet moment after the start, and after each growth by `grownBytes` the next quiet moment. */
export function returnMemory(): void {
  let before = performance.eventLoopUtilization()
  let checksLeft = startChecks
  let leastBytes = Infinity
  let trimWaitMs = leastTrimWaitMs
  let nextTrimMs = 0
  const utilization = (): number => {
    const now = performance.eventLoopUtilization()
    const { utilization: share } = performance.eventLoopUtilization(now, before)
    before = now
    return share
  }
  const giveBackNow = (): void => {
    giveBack()
    leastBytes = process.memoryUsage.rss()
  }
  const trimUnderTraffic = (bytes: number): void => {
    trimHeap()
    const isWorthIt = bytes - process.memoryUsage.rss() > grownBytes
    trimWaitMs = isWorthIt ? leastTrimWaitMs : Math.min(trimWaitMs * 2, mostTrimWaitMs)
    nextTrimMs = performance.now() + trimWaitMs
  }
  const watch = (): void => {
    const bytes = process.memoryUsage.rss()
    leastBytes = Math.min(leastBytes, bytes)
    const share = utilization()
    const grown = bytes - leastBytes
    if (share < idleUtilization && grown > grownBytes) giveBackNow()
    else if (share < steadyUtilization && grown > grownUnderTrafficBytes && performance.now() >= nextTrimMs) {
      trimUnderTraffic(bytes)
    }
    setTimeout(watch, laterCheckMs).unref()
  }
  const checkStart = (): void => {
    const isOver = utilization() < idleUtilization
    if (isOver) giveBackNow()
    if (isOver || --checksLeft === 0) setTimeout(watch, laterCheckMs).unref()
    else setTimeout(checkStart, checkMs).unref()
  }
  setTimeout(checkStart, checkMs).unref()
}

function giveBack(): void {
  try {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as Collect
    setFlagsFromString('--no-expose-gc')
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
  } catch {
    // Another V8 has no such function; then the memory stays.
  }
  trimHeap()
}

let trim: ((keptBytes: number) => number) | null = null

function trimHeap(): void {
  if (process.platform !== 'linux') return
  try {
    trim ??= loadKoffi().load(null).func('int malloc_trim(size_t)') as (keptBytes: number) => number
    trim(0)
  } catch {
    // Another libc has no such function; then the memory stays.
  }
}
