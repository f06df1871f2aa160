// Every thread and process that this process has started for models, so that an exit that takes too long can end them all. The
// set belongs to the process, as its children do.

const running = new Set<() => void>()

/** `end` ends a worker by force. The result is called when the worker is gone. */
export function noteWorker(end: () => void): () => void {
  if (running.size === 0) process.on('exit', endWorkers)
  running.add(end)
  return () => {
    if (running.delete(end) && running.size === 0) process.off('exit', endWorkers)
  }
}

/** Ends all of them, now and by force. None of them outlives the server, whatever its code is doing. */
export function endWorkers(): void {
  for (const end of running) end()
}
