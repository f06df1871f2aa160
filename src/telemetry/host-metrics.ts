// CPU and memory of the machine, read at intervals.

import { readFile } from 'node:fs/promises'
import os from 'node:os'
import type { Cancel, Clock } from '../base/clock.ts'

export type CpuTimes = { readonly busy: number; readonly total: number }
type Memory = { readonly totalBytes: number; readonly usedBytes: number }

/** Where the figures come from. */
interface HostProbe {
  cpuTimes(): Promise<CpuTimes | null>
  memory(): Promise<Memory | null>
}

export class HostMetrics {
  readonly #clock: Clock
  readonly #probe: HostProbe
  readonly #intervalNs: number
  #cancel: Cancel | null = null
  #isClosed = false
  #last: CpuTimes | null = null
  #cpuUtilization = 0
  #memory: Memory = { totalBytes: 0, usedBytes: 0 }

  constructor(clock: Clock, intervalMs: number, probe: HostProbe = systemProbe) {
    this.#clock = clock
    this.#probe = probe
    this.#intervalNs = intervalMs * 1e6
  }

  /** From 0 to 1, between the last two readings; 0 until there are two. */
  get cpuUtilization(): number {
    return this.#cpuUtilization
  }

  get memory(): Memory {
    return this.#memory
  }

  /** Reads the figures now and at every interval, until `close`. */
  async start(): Promise<void> {
    await this.#look()
    if (this.#isClosed) return
    this.#cancel = this.#clock.after(this.#intervalNs, () => void this.start())
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  async #look(): Promise<void> {
    // A figure that cannot be read stays as it was: metrics must not end the server.
    const [times, memory] = await Promise.all([
      this.#probe.cpuTimes().catch(() => null),
      this.#probe.memory().catch(() => null),
    ])
    if (memory !== null) this.#memory = memory
    if (times === null) return
    const last = this.#last
    this.#last = times
    if (last === null || times.total <= last.total) return
    this.#cpuUtilization = Math.min(1, Math.max(0, (times.busy - last.busy) / (times.total - last.total)))
  }
}

/** The first line of /proc/stat: user nice system idle iowait irq softirq steal …; idle and iowait are not busy. */
export function parseProcStat(text: string): CpuTimes | null {
  const match = /^cpu\s+([\d ]+)/m.exec(text)
  if (match === null) return null
  const times = (match[1] as string).trim().split(/\s+/).slice(0, 8).map(Number)
  const total = times.reduce((sum, time) => sum + time, 0)
  return { busy: total - (times[3] ?? 0) - (times[4] ?? 0), total }
}

/** Used memory is all memory that is not available. */
export function parseMemInfo(text: string): Memory | null {
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? NaN)
  const [total, available] = [kib('MemTotal'), kib('MemAvailable')]
  return Number.isNaN(total) || Number.isNaN(available)
    ? null
    : { totalBytes: total * 1024, usedBytes: (total - available) * 1024 }
}

function osCpuTimes(): CpuTimes {
  let busy = 0
  let total = 0
  for (const { times } of os.cpus()) {
    const all = times.user + times.nice + times.sys + times.idle + times.irq
    total += all
    busy += all - times.idle
  }
  return { busy, total }
}

const isLinux = process.platform === 'linux'

export const systemProbe: HostProbe = {
  cpuTimes: async () => (isLinux ? parseProcStat(await readFile('/proc/stat', 'utf8')) : osCpuTimes()),
  memory: async () =>
    isLinux
      ? parseMemInfo(await readFile('/proc/meminfo', 'utf8'))
      : { totalBytes: os.totalmem(), usedBytes: os.totalmem() - os.freemem() },
}
