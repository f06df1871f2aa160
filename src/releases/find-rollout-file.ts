import type { RepositoryStore } from '../repository/repository-store.ts'

export const rolloutFileNames = ['rollout.yaml', 'rollout.yml', 'rollout.json'] as const

/** The name of the rollout file inside the model's folder; '' when there is none. */
export async function findRolloutFile(store: RepositoryStore, root: string, name: string): Promise<string> {
  for (const file of rolloutFileNames) {
    const stat = await store.stat(root, `${name}/${file}`).catch(() => null)
    if (stat !== null && !stat.isDirectory) return file
  }
  return ''
}
