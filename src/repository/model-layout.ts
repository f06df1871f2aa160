// What a model's folder holds, read once per poll.

import { createHash, type Hash } from 'node:crypto'
import { registryFileNames } from './registry-file-names.ts'
import type { ListOptions, RepositoryStore, StoreEntryKind } from './repository-store.ts'
import { compareVersions, isVersionName } from './version-policy.ts'

export type LayoutEntry = {
  readonly kind: StoreEntryKind
  readonly isLink: boolean
  /** Of files; 0 for everything else. */
  readonly sizeBytes: number
  /** Stands for a file's content, where the store knows it. */
  readonly contentId: string | null
}

export class ModelLayout {
  /** By path inside the model's folder: `config.pbtxt`, `1`, `1/model.onnx`. */
  readonly entries: ReadonlyMap<string, LayoutEntry>
  /** Changes whenever a file is added, removed or written. */
  readonly fingerprint: string
  /** A fingerprint of each version's folder alone, and under '' one of what all versions share, configurations left out. */
  readonly partFingerprints: ReadonlyMap<string, string>
  /** Bytes of files by version; under '' the bytes of what all versions share. */
  readonly partBytes: ReadonlyMap<string, number>

  constructor(
    entries: ReadonlyMap<string, LayoutEntry>,
    fingerprint: string,
    partFingerprints: ReadonlyMap<string, string>,
    partBytes: ReadonlyMap<string, number>,
  ) {
    this.entries = entries
    this.fingerprint = fingerprint
    this.partFingerprints = partFingerprints
    this.partBytes = partBytes
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

  /** The first link that leads out of the repository and that loading the model would follow; null: there is none. */
  firstOutside(): string | null {
    return this.#first('outside', 2)
  }

  /** The first pipe or device that loading the model could open; null: there is none. */
  firstDevice(): string | null {
    return this.#first('device', 3)
  }

  #first(kind: StoreEntryKind, depth: number): string | null {
    for (const [path, entry] of this.entries) if (entry.kind === kind && path.split('/').length <= depth) return path
    return null
  }
}

const maxDepth = 12
/** Of a model with more files (for example an unpacked Python environment) only the first ones are watched. */
export const maxEntries = 20_000
const notWatched: ReadonlySet<string> = new Set(['__pycache__'])

export async function readModelLayout(
  store: RepositoryStore,
  root: string,
  model: string,
  options: ListOptions = {},
): Promise<ModelLayout> {
  const entries = new Map<string, LayoutEntry>()
  const hash = createHash('sha256')
  const parts = new Map<string, Hash>()
  const partBytes = new Map<string, number>()
  const note = (path: string, line: string, sizeBytes: number): void => {
    hash.update(line)
    const top = path.split('/', 1)[0] as string
    // Configurations are compared by their values, not by their text; and a registry file does not change the model.
    if (top === 'configs' || top === 'config.pbtxt' || registryFileNames.includes(path)) return
    const part = isVersionName(top) ? top : ''
    const partHash = parts.get(part) ?? createHash('sha256')
    parts.set(part, partHash)
    partHash.update(line)
    partBytes.set(part, (partBytes.get(part) ?? 0) + sizeBytes)
  }
  const walk = async (folder: string, depth: number): Promise<void> => {
    const listed = await store.list(root, folder === '' ? model : `${model}/${folder}`, options)
    const folders: string[] = []
    for (const { name, kind, isLink, modifiedMs, sizeBytes, contentId } of listed) {
      if (entries.size >= maxEntries) return
      const path = folder === '' ? name : `${folder}/${name}`
      entries.set(path, { kind, isLink, sizeBytes, contentId: contentId ?? null })
      if (notWatched.has(name)) continue
      note(path, `${path}\0${kind}\0${contentId ?? `${modifiedMs}\0${sizeBytes}`}\n`, sizeBytes)
      // A linked folder is followed only in the model's folder: deeper down a link may lead back to its own parent.
      if (kind === 'directory' && depth < maxDepth && (!isLink || depth === 0)) folders.push(path)
    }
    // The files of a folder come before those of its folders: a version with very many must not hide config.pbtxt.
    for (const path of folders) await walk(path, depth + 1)
  }
  await walk('', 0)
  const partFingerprints = new Map([...parts].map(([part, partHash]) => [part, partHash.digest('hex')]))
  return new ModelLayout(entries, hash.digest('hex'), partFingerprints, partBytes)
}
