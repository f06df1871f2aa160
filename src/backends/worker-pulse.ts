import { readdir, readFile } from 'node:fs/promises'

/** User and system time of a thread, in microseconds. */
export type CpuUsage = { readonly user: number; readonly system: number }

/**
 * Tells whether a Worker is alive: a message goes through its message loop and comes back. A Worker that does not
 * answer because it executes is alive too, so the caller also looks for other signs of life.
 */
export class WorkerPulse {
  #isAnswered = true
  #cpuUs = 0

  answered(): void {
    this.#isAnswered = true
  }

  /** Call it at intervals; it never waits for the Worker. False: no sign of life since the last call. */
  async beat(send: () => void, isAtWork: () => Promise<boolean>): Promise<boolean> {
    const isAtWorkNow = await isAtWork()
    if (!this.#isAnswered) return isAtWorkNow
    this.#isAnswered = false
    send()
    return true
  }

  /** Whether the Worker has used the CPU since the last call. */
  hasMoved(cpu: CpuUsage | null): boolean {
    if (cpu === null) return false
    const cpuUs = cpu.user + cpu.system
    const hasMoved = cpuUs - this.#cpuUs >= leastWorkUs
    this.#cpuUs = cpuUs
    return hasMoved
  }
}

/** A thread that only sleeps uses less CPU than this between two calls. */
const leastWorkUs = 1000
const tickUs = 10_000

/** The CPU time of a thread, asked from outside; null when this version of Node cannot tell. */
export async function threadCpu(thread: object): Promise<CpuUsage | null> {
  const { cpuUsage } = thread as { cpuUsage?: () => Promise<CpuUsage> }
  return cpuUsage === undefined ? null : cpuUsage.call(thread).catch(() => null)
}

/** True when every thread of the process waits for a lock: no thread is left that could open it. False where the system does not tell. */
export async function waitsForLocks(pid: number): Promise<boolean> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
  const places = threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/wchan`, 'utf8').catch(() => ''))
  return threads.length > 0 && (await Promise.all(places)).every((place) => place.startsWith('futex'))
}

/** The state and CPU time of a process; null on systems without /proc. */
export async function processState(
  pid: number,
): Promise<{ readonly isStopped: boolean; readonly cpu: CpuUsage } | null> {
  return readStat(`/proc/${pid}/stat`)
}

/** The CPU time of the first thread of a process, in milliseconds; null on systems without /proc. */
export async function firstThreadMs(pid: number): Promise<number | null> {
  const state = await readStat(`/proc/${pid}/task/${pid}/stat`)
  return state === null ? null : (state.cpu.user + state.cpu.system) / 1000
}

async function readStat(file: string): Promise<{ readonly isStopped: boolean; readonly cpu: CpuUsage } | null> {
  const stat = await readFile(file, 'utf8').catch(() => null)
  if (stat === null) return null
  // The process name in brackets may contain any character, also spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = ''] = fields
  const cpu = { user: Number(fields[11]) * tickUs, system: Number(fields[12]) * tickUs }
  return { isStopped: 'TtZX'.includes(state), cpu }
}
