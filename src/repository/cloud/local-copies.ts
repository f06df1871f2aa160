import path from 'node:path'
import type { RepositoryStore } from '../repository-store.ts'
import { modelFolders } from '../model-repository.ts'
import { isCloudPath, withoutSecrets } from './cloud-location.ts'

/**
 * Folders of this machine that hold the same models as these repositories, each with the address it stands for. What lies
 * on this machine already stands for itself.
 */
export async function localCopies(store: RepositoryStore, roots: readonly string[]): Promise<Map<string, string>> {
  const copies = new Map<string, string>()
  for (const root of roots.map(withoutSecrets)) {
    if (!isCloudPath(root)) copies.set(root, root)
    else {
      for (const model of await modelFolders(store, root)) {
        await store.list(root, model)
        copies.set(path.dirname(await store.localise(root, model)), root)
      }
    }
  }
  return copies
}
