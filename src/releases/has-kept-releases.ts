import { readdir } from 'node:fs/promises'
import path from 'node:path'

/** The folders of a state folder: records of rollouts, pins of models. */
export const keptFolders = ['rollouts', 'models'] as const

/** Whether an earlier run of the server has kept anything about rollouts. */
export async function hasKeptReleases(stateDirectory: string): Promise<boolean> {
  for (const folder of keptFolders) {
    const names = await readdir(path.join(stateDirectory, folder)).catch(() => [])
    if (names.some((name) => name.endsWith('.json'))) return true
  }
  return false
}
