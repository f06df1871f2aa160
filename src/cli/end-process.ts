// process.exit waits for the threads of the pool. One of them may wait for a disk or a network file system that does not answer,
// and then the process would neither serve nor end.

import { loadKoffi } from '../base/koffi.ts'

/** Work of the pool that may wait for something outside of the process. */
const waiting = /^(FSReq|FileHandle|GetAddrInfo|GetNameInfo)/

/** What threads write to logs at the moment is done within this time. */
const graceMs = 100

/** Ends the process with this status, whatever its threads wait for. */
export function endProcess(status: number): never {
  if (!process.getActiveResourcesInfo().some((name) => waiting.test(name))) process.exit(status)
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
