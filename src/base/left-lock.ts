// Locks are files that their processes remove. One that was killed leaves its lock behind.

import { open, stat, unlink } from 'node:fs/promises'

/** What a lock is taken for takes milliseconds. A lock of this age was left behind, also by a process of another machine. */
const staleLockMs = 60_000

export async function isStale(lock: string): Promise<boolean> {
  const facts = await stat(lock).catch(() => null)
  return facts !== null && Date.now() - facts.mtimeMs > staleLockMs
}

/**
 * Several may find the same lock left behind. One at a time looks again and removes it, and so none removes the new lock of another, and no
 * two have it together.
 */
export async function removeLeftLock(lock: string, isLeftBehind: () => Promise<boolean>): Promise<void> {
  const own = `${lock}.old`
  // A process that was killed here, too, which takes no time.
  if (await isStale(own)) await unlink(own).catch(() => undefined)
  const held = await open(own, 'wx', 0o600).catch(() => null)
  if (held === null) return
  try {
    if (await isLeftBehind()) await unlink(lock)
  } finally {
    await held.close()
    await unlink(own)
  }
}
