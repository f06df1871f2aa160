let lastBytes = 0

/** Resident memory of the process. A system without a free descriptor cannot tell it: then what it told last counts. */
export function residentBytes(): number {
  try {
    lastBytes = process.memoryUsage.rss()
  } catch {
    // The next look tells it.
  }
  return lastBytes
}
