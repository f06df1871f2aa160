import { mkdir, mkdtemp, rm, rmdir } from 'node:fs/promises'
import path from 'node:path'

/** A server that polls the repository must not see half a model, and a failure leaves nothing behind. */
export async function inStaging<T>(
  repository: string,
  prefix: string,
  make: (staging: string) => Promise<T>,
): Promise<T> {
  const isNew = (await mkdir(repository, { recursive: true })) !== undefined
  const staging = await mkdtemp(path.join(repository, prefix))
  try {
    return await make(staging)
  } finally {
    await rm(staging, { recursive: true, force: true })
    // It goes only where it is empty, because nothing could be made.
    if (isNew) await rmdir(repository).catch(() => undefined)
  }
}
