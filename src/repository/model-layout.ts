// What a model's folder holds, read once per poll.

import { createHash } from 'node:crypto'
import type { RepositoryStore, StoreEntryKind } from './repository-store.ts'
import { compareVersions, isVersionName } from './version-policy.ts'

export type LayoutEntry = { readonly kind: StoreEntryKind; readonly isLink: boolean }

export class ModelLayout {
  /** By path inside the model's folder: `config.pbtxt`, `1`, `1/model.onnx`. */
  readonly entries: ReadonlyMap<string, LayoutEntry>
  /** Changes whenever a file is added, removed or written. */
  readonly fingerprint: string

  constructor(entries: ReadonlyMap<string, LayoutEntry>, fingerprint: string) {
    this.entries = entries
    this.fingerprint = fingerprint
  }

  hasFile(path: string): boolean {
    return this.entries.get(path)?.kind === 'file'
  }

  /** Names and kinds of what lies directly in a folder; '' is the model's folder. */
  children(folder: string): Map<string, StoreEntryKind> {
    const prefix = folder === '' ? '' : `${folder}/`
    const found = new Map<string, StoreEntryKind>()
    for (const [path, entry] of this.entries) {
      const name = path.slice(prefix.length)
      if (path.startsWith(prefix) && name !== '' && !name.includes('/')) found.set(name, entry.kind)
    }
    return found
  }

  folders(): string[] {
    return [...this.children('')].filter(([, kind]) => kind === 'directory').map(([name]) => name)
  }

  /** Version folders, ascending. */
  versions(): string[] {
    return this.folders().filter(isVersionName).sort(compareVersions)
  }

  /** A link that leads out of the repository and that the model would be loaded through, if there is one. */
  firstOutside(): string | null {
    for (const [path, { kind }] of this.entries) if (kind === 'outside' && path.split('/').length <= 2) return path
    return null
  }
}

const maxDepth = 12
/** A model with more files (an unpacked Python environment, say) is watched by the first of them only. */
const maxEntries = 20_000
const notWatched: ReadonlySet<string> = new Set(['__pycache__'])

export async function readModelLayout(store: RepositoryStore, root: string, model: string): Promise<ModelLayout> {
  const entries = new Map<string, LayoutEntry>()
  const hash = createHash('sha256')
  const walk = async (folder: string, depth: number): Promise<void> => {
    for (const { name, kind, isLink, modifiedMs, sizeBytes } of await store.list(
      root,
      folder === '' ? model : `${model}/${folder}`,
    )) {
      if (entries.size >= maxEntries) return
      const path = folder === '' ? name : `${folder}/${name}`
      entries.set(path, { kind, isLink })
      if (notWatched.has(name)) continue
      hash.update(`${path}\0${kind}\0${modifiedMs}\0${sizeBytes}\n`)
      // A linked folder is followed only where versions lie: deeper down it may lead back to its own parent.
      if (kind === 'directory' && depth < maxDepth && (!isLink || depth === 0)) await walk(path, depth + 1)
    }
  }
  await walk('', 0)
  return new ModelLayout(entries, hash.digest('hex'))
}
