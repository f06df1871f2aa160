import { hash } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** In one step: whoever reads the file, also after a crash in the middle, sees the old text or the new one. Only the owner may read it. */
export async function replaceFile(path: string, text: string | Uint8Array): Promise<void> {
  const draft = join(dirname(path), `.${process.pid}-${hash('sha256', path).slice(0, 16)}.new`)
  try {
    const file = await open(draft, 'w', 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(draft, path)
  } catch (reason) {
    // A disk that is full must not keep half of a file that nobody reads.
    await rm(draft, { force: true })
    throw reason
  }
}

/** A process that was killed while it replaced a file leaves the half of it under such a name. */
export const isDraft = (name: string): boolean => /^\.\d+-[0-9a-f]{16}\.new$/.test(name)
