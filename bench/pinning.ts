import { spawnSync } from 'node:child_process'
import { availableParallelism } from 'node:os'

const canPin = availableParallelism() >= 2 && spawnSync('taskset', ['-c', '1', 'true']).status === 0

/** What to put before a command to keep it on one core; nothing where that cannot be done. */
export const onCore = (core: number): readonly string[] => (canPin ? ['taskset', '-c', String(core)] : [])

export const pinningText = canPin ? 'server on core 0, load on core 1' : 'server and load not pinned to cores'
