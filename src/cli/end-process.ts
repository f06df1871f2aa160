// process.exit waits for the threads of the pool. One of them may wait for a disk or a network file system that does not answer,
// and then the process would neither serve nor end.

import { loadKoffi } from '../base/koffi.ts'

/** Work of the pool that may wait for something outside of the process. */
const waiting = /^(FSReq|FileHandle|GetAddrInfo|GetNameInfo)/

/** What threads write to logs at the moment is done within this time. */
const graceMs = 100

/**
 * Ends the process with this status, whatever the threads of the pool wait for. `at once`: whatever any thread waits for. process.exit waits for
 * each of them, and a driver that does not answer keeps the thread that called it for ever.
 */
export function endProcess(status: number, when: 'soon' | 'at once' = 'soon'): never {
  if (when === 'soon' && !process.getActiveResourcesInfo().some((name) => waiting.test(name))) process.exit(status)
  process.exitCode = status
  process.emit('exit', status)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, graceMs)
  try {
    const leave = loadKoffi().load(null).func('void _exit(int)') as (status: number) => void
    leave(status)
  } catch {
    // Without the system's own function the status is that of a signal.
  }
  process.kill(process.pid, 'SIGKILL')
  // The signal ends the process before this line, or the system has no signals.
  process.exit(status)
}
