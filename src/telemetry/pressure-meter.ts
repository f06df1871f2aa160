// How much comes in relation to what can be done. Nothing is counted for this: it looks at totals that are there, and only
// while somebody asks.

import { availableParallelism, totalmem } from 'node:os'
import { performance, type EventLoopUtilization } from 'node:perf_hooks'
import type { Cancel, Clock } from '../base/clock.ts'
import type { LedgerEntry } from './model-ledger.ts'

type Counts = { readonly busyNs: number; readonly requests: number; readonly errors: number }

type Sample = {
  readonly atNs: number
  readonly cpuMicros: number
  readonly loop: EventLoopUtilization
  readonly counts: ReadonlyMap<LedgerEntry, Counts>
}

export type LoadFigures = {
  /** Demand ÷ capacity of every version with instances. Above 1 more comes than can be done. */
  readonly pressures: ReadonlyMap<LedgerEntry, number>
  /** The largest of: the pressures, the share of the main thread that is busy, the share of memory where it is above 90 %. */
  readonly server: number
  readonly waiting: number
  readonly running: number
  readonly requestsPerSec: number
  readonly errorsPerSec: number
  /** Of the server's process, in shares of all cores. */
  readonly cpu: number
  readonly memory: number
}

/** What the machine says. Tests say something else. */
export type MachineReadings = {
  cpuMicros(): number
  loop(since?: EventLoopUtilization): EventLoopUtilization
  /** The share of memory that is taken. */
  memoryShare(): number
  readonly coreCount: number
}

const windowNs = 15e9
const sampleEveryNs = 5e9
/** After so long without a question no further samples are taken. */
const patienceNs = 120e9
/** Figures are worked out once a second, however often somebody asks. */
const freshNs = 1e9
const memoryAlarm = 0.9

export class PressureMeter {
  readonly #clock: Clock
  readonly #entries: () => Iterable<LedgerEntry>
  readonly #machine: MachineReadings
  /** The oldest first. The first one is as old as the window, or older. */
  #samples: Sample[] = []
  #cancel: Cancel | null = null
  #askedNs = 0
  #figures: LoadFigures | null = null
  #figuresNs = 0
  #isClosed = false

  constructor(clock: Clock, entries: () => Iterable<LedgerEntry>, machine: MachineReadings = machineReadings) {
    this.#clock = clock
    this.#entries = entries
    this.#machine = machine
    this.#take(clock.nowNs())
  }

  figures(): LoadFigures {
    const nowNs = this.#clock.nowNs()
    this.#askedNs = nowNs
    if (this.#cancel === null && !this.#isClosed) this.#goOn()
    if (this.#figures === null || nowNs - this.#figuresNs >= freshNs) {
      this.#figures = this.#workOut(nowNs)
      this.#figuresNs = nowNs
    }
    return this.#figures
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  #goOn(): void {
    this.#cancel = this.#clock.after(sampleEveryNs, () => {
      this.#cancel = null
      const nowNs = this.#clock.nowNs()
      if (nowNs - this.#askedNs > patienceNs) return
      this.#take(nowNs)
      this.#goOn()
    })
  }

  #take(nowNs: number): void {
    const samples = [...this.#samples, this.#sample(nowNs)]
    const first = samples.findLastIndex(({ atNs }) => nowNs - atNs >= windowNs)
    this.#samples = samples.slice(Math.max(first, 0))
  }

  #sample(nowNs: number): Sample {
    const counts = new Map<LedgerEntry, Counts>()
    for (const entry of this.#entries()) if (entry.isServing) counts.set(entry, countsOf(entry, nowNs))
    return { atNs: nowNs, cpuMicros: this.#machine.cpuMicros(), loop: this.#machine.loop(), counts }
  }

  #workOut(nowNs: number): LoadFigures {
    const before = this.#samples[0] as Sample
    const now = this.#sample(nowNs)
    const seconds = Math.max(nowNs - before.atNs, 1e6) / 1e9
    const pressures = new Map<LedgerEntry, number>()
    const sums = { waiting: 0, running: 0, requests: 0, errors: 0 }
    for (const [entry, counts] of now.counts) {
      const change = changeOf(counts, before.counts.get(entry))
      const waiting = entry.pendingCount()
      sums.waiting += waiting
      sums.running += Math.max(0, entry.sum(({ inFlightCount }) => inFlightCount) - waiting)
      sums.requests += change.requests
      sums.errors += change.errors
      const pressure = pressureOf(entry, change, counts, waiting, seconds)
      if (pressure !== null) pressures.set(entry, pressure)
    }
    const memory = this.#machine.memoryShare()
    const mainThread = this.#machine.loop(before.loop).utilization
    return {
      pressures,
      server: rounded(Math.max(0, ...pressures.values(), mainThread, memory > memoryAlarm ? memory : 0)),
      waiting: sums.waiting,
      running: sums.running,
      requestsPerSec: rounded(sums.requests / seconds),
      errorsPerSec: rounded(sums.errors / seconds),
      cpu: rounded((now.cpuMicros - before.cpuMicros) / 1e6 / seconds / this.#machine.coreCount),
      memory: rounded(memory),
    }
  }
}

/** Null for a version without instances, as an ensemble is. */
function pressureOf(
  entry: LedgerEntry,
  change: Counts,
  total: Counts,
  waiting: number,
  seconds: number,
): number | null {
  if (entry.sum(({ workload }) => workload.count) === 0) return null
  const busyInstances = Math.max(0, change.busyNs) / 1e9 / seconds
  const ready = Math.max(
    1,
    entry.sum(({ workload }) => workload.readyCount),
  )
  return rounded((busyInstances + backlogOf(change, total, waiting)) / ready)
}

type Work = Pick<Counts, 'busyNs' | 'requests'>

/** How many instances the waiting requests would keep busy for one second. */
export function backlogOf(change: Work, total: Work, waiting: number): number {
  // Before the first request has ended, nobody knows what a request costs.
  const { busyNs, requests } = change.requests > 0 ? change : total
  return requests === 0 ? 0 : (waiting * busyNs) / 1e9 / requests
}

function countsOf(entry: LedgerEntry, nowNs: number): Counts {
  const { successCount, failures } = entry.totals()
  const errors = failures.REJECTED + failures.CANCELED + failures.BACKEND + failures.OTHER
  return { busyNs: entry.busyNs(nowNs), requests: successCount + errors, errors }
}

/** A version that was loaded anew begins at nothing. */
function changeOf(now: Counts, before: Counts | undefined): Counts {
  if (before === undefined || now.requests < before.requests || now.busyNs < before.busyNs) return now
  return {
    busyNs: now.busyNs - before.busyNs,
    requests: now.requests - before.requests,
    errors: now.errors - before.errors,
  }
}

const rounded = (value: number): number => Number(value.toPrecision(4))

export const machineReadings: MachineReadings = {
  cpuMicros: () => {
    const { user, system } = process.cpuUsage()
    return user + system
  },
  loop: (since) => performance.eventLoopUtilization(since),
  memoryShare: () => {
    // In a container the limit of the container counts. Where there is none, the figure is absurdly large.
    const limit = Math.min(process.constrainedMemory() || Infinity, totalmem())
    return Math.min(1, Math.max(0, 1 - process.availableMemory() / limit))
  },
  coreCount: availableParallelism(),
}
