/** True when a process has this number, whoever it belongs to. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (reason) {
    // The process runs, and belongs to somebody else.
    return (reason as NodeJS.ErrnoException).code === 'EPERM'
  }
}
