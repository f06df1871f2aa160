import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'

// Read once: a process that keeps to one core counts one.
const coreCount = availableParallelism()
const canPin = coreCount >= 2 && spawnSync('taskset', ['-c', '1', 'true']).status === 0

/** What to put before a command to keep it on these cores; nothing where that cannot be done. */
export const onCore = (...cores: readonly number[]): readonly string[] =>
  canPin ? ['taskset', '-c', cores.join(',')] : []

const canYield = spawnSync('chrt', ['-b', '0', 'true']).status === 0

/** What to put before a command that is to give its core up as soon as another process wants it; nothing where that cannot be done. */
export const behindOthers: readonly string[] = canYield ? ['nice', '-n', '19', 'chrt', '-b', '0'] : []

/** Keeps this process, and what it starts without a core of its own, on one core; null: on any. */
export const keepOnCore = (core: number | null): void => keepOn(core === null ? `0-${coreCount - 1}` : String(core))

/** The same with all cores but so many of the first. */
export const keepBehindCores = (count: number): void => keepOn(`${count}-${coreCount - 1}`)

function keepOn(cores: string): void {
  if (canPin) spawnSync('taskset', ['-a', '-p', '-c', cores, String(process.pid)])
}

export const pinningText = canPin ? 'server on core 0, load on core 1' : 'server and load not pinned to cores'
