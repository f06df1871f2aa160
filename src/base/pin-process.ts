// Binds processes to cores, on Linux.

import fs from 'node:fs'
import { coreMask, loadKoffi } from './koffi.ts'

type SetAffinity = (id: number, byteLength: number, mask: BigUint64Array) => number

let setAffinity: SetAffinity | null = null

/** All threads that the process has now; those and the processes that it starts later inherit from them. Empty: nothing changes. */
export function pinProcess(processId: number | undefined, cores: readonly number[]): void {
  if (cores.length === 0 || processId === undefined || process.platform !== 'linux') return
  setAffinity ??= loadKoffi()
    .load(null)
    .func('sched_setaffinity', 'int', ['int', 'size_t', 'void*']) as unknown as SetAffinity
  const mask = coreMask(cores)
  try {
    for (const thread of fs.readdirSync(`/proc/${processId}/task`)) setAffinity(Number(thread), mask.byteLength, mask)
  } catch {
    // The process is gone.
  }
}
