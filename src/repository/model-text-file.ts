import { join } from 'node:path'
import { ServerError } from '../base/server-error.ts'
import type { RepositoryStore } from './repository-store.ts'

/** The text of a file in a model's folder. When the file is missing, the error has Triton's text. */
export async function readModelText(
  store: RepositoryStore,
  modelDirectory: string,
  path: string,
  limitBytes: number,
): Promise<string> {
  try {
    return await store.readText(modelDirectory, path, limitBytes)
  } catch (reason) {
    if (!(reason instanceof ServerError) || reason.code !== 'NOT_FOUND') throw reason
    const what = `failed to open text file for read ${join(modelDirectory, path)}: No such file or directory`
    throw new ServerError('INTERNAL', what, { cause: reason })
  }
}
