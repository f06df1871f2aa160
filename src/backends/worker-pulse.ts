import { readFile } from 'node:fs/promises'

/** User and system time of a thread, in microseconds. */
export type CpuUsage = { readonly user: number; readonly system: number }

/**
 * Whether a Worker is alive: a word goes through its message loop and comes back. One that does not answer because it is at
 * work is alive too, so whoever asks also looks for other signs of life.
 */
export class WorkerPulse {
  #isAnswered = true
  #cpuUs = 0

  answered(): void {
    this.#isAnswered = true
  }

  /** To be asked now and again; never waits for the Worker. False: no sign of life since it was last asked. */
  async beat(send: () => void, isAtWork: () => Promise<boolean>): Promise<boolean> {
    const isAtWorkNow = await isAtWork()
    if (!this.#isAnswered) return isAtWorkNow
    this.#isAnswered = false
    send()
    return true
  }

  /** Whether it has used the CPU since it was last asked. */
  hasMoved(cpu: CpuUsage | null): boolean {
    if (cpu === null) return false
    const cpuUs = cpu.user + cpu.system
    const hasMoved = cpuUs - this.#cpuUs >= leastWorkUs
    this.#cpuUs = cpuUs
    return hasMoved
  }
}

/** A thread that only sleeps takes less than this between two looks. */
const leastWorkUs = 1000
const tickUs = 10_000

/** Of a thread, from outside of it; null where this version of Node cannot tell. */
export async function threadCpu(thread: object): Promise<CpuUsage | null> {
  const { cpuUsage } = thread as { cpuUsage?: () => Promise<CpuUsage> }
  return cpuUsage === undefined ? null : cpuUsage.call(thread).catch(() => null)
}

/** Of a process, as the system tells it; null where it does not. */
export async function processState(
  pid: number,
): Promise<{ readonly isStopped: boolean; readonly cpu: CpuUsage } | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  if (stat === null) return null
  // The name in brackets may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = ''] = fields
  const cpu = { user: Number(fields[11]) * tickUs, system: Number(fields[12]) * tickUs }
  return { isStopped: 'TtZX'.includes(state), cpu }
}
