// Gives the memory that only the start needed back to the system: an eighth of an idle server (bench/start.bench.ts).
// V8 would keep its young generation at the size of the start, and malloc the memory for reading model files.

import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const checkMs = 500
/** The share of time between two checks. A server that is busier than this should not pause. */
const idleUtilization = 0.1
/** A server that is busy at all these checks needs its memory and its warm code, so nothing is given back. */
const mostChecks = 4

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void

/** Waits for a quiet moment and then takes about 50 ms. Once per process. */
export function returnStartMemory(): void {
  let before = performance.eventLoopUtilization()
  let checksLeft = mostChecks
  const check = (): void => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, before)
    before = now
    if (utilization < idleUtilization) giveBack()
    else if (--checksLeft > 0) setTimeout(check, checkMs).unref()
  }
  setTimeout(check, checkMs).unref()
}

function giveBack(): void {
  try {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as Collect
    setFlagsFromString('--no-expose-gc')
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    if (process.platform === 'linux') trimHeap()
  } catch {
    // Another V8 or another libc has no such function; then the memory stays.
  }
}

function trimHeap(): void {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  const trim = koffi.load(null).func('int malloc_trim(size_t)') as (keptBytes: number) => number
  trim(0)
}
