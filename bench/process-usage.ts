// What a process and its descendants have used, read from /proc: other processes can be measured without their help.

import { readdirSync, readFileSync } from 'node:fs'

/** Linux counts processor time in ticks of 10 ms on every platform Node runs on. */
const ticksPerSecond = 100

/** User and system time of all threads of the process and its descendants, in seconds. */
export const cpuSecondsOf = (pid: number): number =>
  familyOf(pid).reduce((sum, member) => {
    const stat = readFileSync(`/proc/${member}/stat`, 'latin1')
    // The name in the second field may hold spaces and brackets: fields are counted from behind it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return sum + (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
  }, 0)

/** Resident memory of the process and its descendants, in MiB. */
export const residentMibOf = (pid: number): number => statusMibOf(pid, 'VmRSS')

/** What of it is in no file: a page of a program or library counts for every process that has touched it, but exists once. */
export const ownMibOf = (pid: number): number => statusMibOf(pid, 'RssAnon')

const statusMibOf = (pid: number, field: string): number =>
  familyOf(pid).reduce((sum, member) => {
    const found = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${member}/status`, 'latin1'))
    return sum + Number(found?.[1] ?? 0) / 1024
  }, 0)

/**
 * The same in microseconds, and as exactly as the scheduler counts it: for short measurements. What a thread used that
 * ended in between is not in it.
 */
export const cpuMicrosecondsOf = (pid: number): number =>
  familyOf(pid).reduce(
    (sum, member) => sum + threadsOf(member).reduce((us, thread) => us + threadUs(member, thread), 0),
    0,
  )

export const threadUs = (pid: number, thread: string): number => {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]) / 1000
  } catch {
    // The thread ended in between.
    return 0
  }
}

const threadsOf = (pid: number): string[] => readdirSync(`/proc/${pid}/task`)

/** Seconds of all cores that the host of a virtual machine gave to others; 0 where nobody counts them. */
export const stolenSeconds = (): number => {
  const [, ...counts] = (readFileSync('/proc/stat', 'latin1').split('\n', 1)[0] ?? '').trim().split(/\s+/)
  return Number(counts[7] ?? 0) / ticksPerSecond
}

/** A process lists its children thread by thread, under the one that started them. */
export const familyOf = (pid: number): number[] => [
  pid,
  ...readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
    const children = childrenOf(pid, thread)
    return children === '' ? [] : children.split(' ').flatMap((child) => familyOf(Number(child)))
  }),
]

const childrenOf = (pid: number, thread: string): string => {
  try {
    return readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').trim()
  } catch {
    // The thread ended in between, and left its children to another one.
    return ''
  }
}
