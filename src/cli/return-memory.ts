// Gives memory that is no longer needed back to the system in quiet moments: after the start, and after traffic or changes of
// models. V8 keeps garbage until it needs the room, and malloc keeps what was freed: 24 reloads of a Python model under load left
// 195 MB, of which 113 MB held nothing.

import { readFileSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { loadKoffi } from '../base/koffi.ts'
import { specimens } from '../base/specimens.ts'
import { residentBytes } from '../base/resident-bytes.ts'
import { releaseProgramPages } from './release-program-pages.ts'

const checkMs = 500
/** The share of time between two checks. A server that is busier than this should not pause. */
const quietUtilization = 0.1
/** Light traffic makes garbage, too: of its requests fewer than one in a thousand may meet the pause. */
const quietEveryMs = 60_000
/** A server with next to nothing to do gives back at once, and now and then smaller amounts, too. */
const idleUtilization = 0.02
const idleEveryMs = 30_000
/** A server that is busy at all these checks after its start needs its memory and its warm code, so nothing is given back. */
const startChecks = 4
const laterCheckMs = 1000
const grownBytes = { much: 16 * 1024 * 1024, little: 3 * 1024 * 1024 }
/**
 * A server with steady traffic has no quiet moment, but what malloc keeps goes back there, too, once so much was freed since the last
 * time: a pause of a few milliseconds. V8 collects by itself while there is traffic.
 */
const freedBytes = 16 * 1024 * 1024

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void

/** How much memory must have come, or pages of programs, since the process last gave back, for a pause to be worth it. */
export function worthwhileBytes(utilization: number, sinceGivenBackMs: number): number {
  if (utilization < idleUtilization) return sinceGivenBackMs >= idleEveryMs ? grownBytes.little : grownBytes.much
  return utilization < quietUtilization && sinceGivenBackMs >= quietEveryMs ? grownBytes.much : Infinity
}

/** A pause of about 50 ms in a quiet moment after the start, and after each growth by `grownBytes` the next quiet moment. */
export function returnMemory(): void {
  // Opened at the first need: a start should not wait for it.
  let malloc: Malloc | null = null
  let before = performance.eventLoopUtilization()
  let checksLeft = startChecks
  let least: Resident = { ownBytes: Infinity, programBytes: Infinity }
  let leastFreeBytes = Infinity
  let givenBackMs = 0
  const utilization = (): number => {
    const now = performance.eventLoopUtilization()
    const { utilization: share } = performance.eventLoopUtilization(now, before)
    before = now
    return share
  }
  const giveBackNow = (): void => {
    collectGarbage()
    malloc ??= openMalloc()
    malloc?.trim()
    leastFreeBytes = malloc?.freeBytes() ?? 0
    releasePagesNow()
  }
  const releasePagesNow = (): void => {
    releaseProgramPages()
    least = resident()
    givenBackMs = performance.now()
  }
  const trimUnderTraffic = (): void => {
    malloc ??= openMalloc()
    // Free bytes that went back stay free bytes of malloc, until they are used again.
    const freeBytes = malloc?.freeBytes() ?? 0
    leastFreeBytes = Math.min(leastFreeBytes, freeBytes)
    if (freeBytes - leastFreeBytes < freedBytes) return
    malloc?.trim()
    leastFreeBytes = freeBytes
  }
  const watch = (): void => {
    const { ownBytes, programBytes } = resident()
    least = {
      ownBytes: Math.min(least.ownBytes, ownBytes),
      programBytes: Math.min(least.programBytes, programBytes),
    }
    const neededBytes = worthwhileBytes(utilization(), performance.now() - givenBackMs)
    if (ownBytes - least.ownBytes > neededBytes) giveBackNow()
    else if (programBytes - least.programBytes > neededBytes) releasePagesNow()
    else trimUnderTraffic()
    setTimeout(watch, laterCheckMs).unref()
  }
  const checkStart = (): void => {
    const isOver = utilization() < quietUtilization
    if (isOver) giveBackNow()
    if (isOver || --checksLeft === 0) setTimeout(watch, laterCheckMs).unref()
    else setTimeout(checkStart, checkMs).unref()
  }
  setTimeout(checkStart, checkMs).unref()
}

specimens.add(() => {
  const immediate = setImmediate(() => undefined)
  clearImmediate(immediate)
  return immediate
})

/** False: nothing was collected yet, and most code ran for the start only. */
let hasServed = false

/** Code stays, but that of the start: it would be compiled again with the next requests. */
function collectGarbage(): void {
  try {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as Collect
    setFlagsFromString('--no-expose-gc')
    if (hasServed) setFlagsFromString('--no-flush-bytecode')
    hasServed = true
    specimens.during(() => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' }))
    setFlagsFromString('--flush-bytecode')
  } catch {
    // Another V8 has no such function; then the memory stays.
  }
}

type Malloc = { trim(): void; freeBytes(): number }

/** glibc's functions. Null with another libc: then the memory stays. */
function openMalloc(): Malloc | null {
  if (process.platform !== 'linux') return null
  try {
    const koffi = loadKoffi()
    const libc = koffi.load(null)
    // The field of `struct mallinfo2` that counts is the ninth of ten.
    const fields = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`field${index}`, 'size_t']))
    const info = libc.func('mallinfo2', koffi.struct(fields), []) as () => { field8: number | bigint }
    const trim = libc.func('int malloc_trim(size_t)') as (keptBytes: number) => number
    return { trim: () => void trim(0), freeBytes: () => Number(info().field8) }
  } catch {
    return null
  }
}

/** Resident bytes of the process: its own, and those of programs and libraries, which come and go with what the process does. */
type Resident = { readonly ownBytes: number; readonly programBytes: number }

function resident(): Resident {
  try {
    const status = readFileSync('/proc/self/status', 'latin1')
    const bytesOf = (field: string): number =>
      Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024
    const [ownBytes, programBytes] = [bytesOf('RssAnon'), bytesOf('RssFile')]
    if (ownBytes > 0 && programBytes > 0) return { ownBytes, programBytes }
  } catch {
    // Another system has no such file.
  }
  return { ownBytes: residentBytes(), programBytes: 0 }
}
