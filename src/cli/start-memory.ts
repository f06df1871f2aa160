// What starting has left behind goes back to the system: an eighth of what an idle server holds (bench/start.bench.ts).
// V8 would keep its young generation at the size that starting needed, and malloc what model files were read into.

import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const checkMs = 500
/** Of the time between two looks: a server that does more than that has no use for a pause. */
const idleUtilization = 0.1
/** A server that is put to work at once needs its memory, and its code warm: it is left alone for good. */
const mostChecks = 4

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void

/** Waits for a quiet moment, which it takes some 50 ms of. Once per process. */
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
    // Another V8 or another libc: then it stays as it is.
  }
}

function trimHeap(): void {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
  const trim = koffi.load(null).func('int malloc_trim(size_t)') as (keptBytes: number) => number
  trim(0)
}
