// Reads the registry file of a model, beside config.pbtxt: its owner, its tags, where it comes from. A mistake in the file
// never keeps the model from serving.

import { readdir } from 'node:fs/promises'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import { emptyRegistryEntry, type RegistryEntry } from '../model/registry-entry.ts'
import { modelLabel, splitModelKey, type ModelKey } from '../model/model-key.ts'
import { namespaceOf } from './model-repository.ts'
import { modelNameProblem } from './model-name.ts'
import { registryFileNames } from './registry-file-names.ts'
import { readRegistryEntry, type RegistryProblem } from './registry-schema.ts'
import type { RepositoryStore } from './repository-store.ts'
import { compareVersions, isVersionName } from './version-policy.ts'

export type RegistryRecord = {
  /** The file's name inside the model's folder; '' when there is no file. */
  readonly file: string
  readonly entry: RegistryEntry
  readonly problems: readonly RegistryProblem[]
}

export const noRegistryRecord: RegistryRecord = { file: '', entry: emptyRegistryEntry, problems: [] }

const maxFileBytes = 64 * 1024
/** Removed models leave their records behind. Beyond this many records all are dropped and read again. */
const maxRecords = 20_000

type Known = { readonly stamp: string; readonly record: RegistryRecord; isLogged: boolean }

/** Reads the registry file in a model's folder. Never throws: `problems` has what is wrong. */
export async function readRegistryFile(store: RepositoryStore, root: string, name: string): Promise<RegistryRecord> {
  const found = await findFiles(store, root, name)
  const [first] = found
  return first === undefined ? noRegistryRecord : readFound(store, root, name, first, found)
}

type FoundFile = { readonly file: string; readonly stamp: string }

async function findFiles(store: RepositoryStore, root: string, name: string): Promise<FoundFile[]> {
  const found: FoundFile[] = []
  for (const file of registryFileNames) {
    // `stat` throws for a model that is not here yet, and for a link that leads out of the repository: there is no file then.
    const stat = await store.stat(root, `${name}/${file}`).catch(() => null)
    if (stat === null || stat.isDirectory) continue
    found.push({ file, stamp: `${root}\0${file}\0${stat.modifiedMs}\0${stat.sizeBytes}` })
  }
  return found
}

async function readFound(
  store: RepositoryStore,
  root: string,
  name: string,
  { file }: FoundFile,
  all: readonly FoundFile[],
): Promise<RegistryRecord> {
  const others = all.slice(1).map((other) => ({
    message: `'${other.file}' is not read, because there is '${file}' too`,
    fix: 'keep one of the two',
    position: null,
  }))
  try {
    const text = await store.readText(root, `${name}/${file}`, maxFileBytes)
    // The YAML library is loaded only when there is a YAML file.
    const { parseFileText, FileTextError } = await import('../base/file-text.ts')
    try {
      const { value, positionOf } = parseFileText(text, file.endsWith('.json') ? 'json' : 'yaml')
      const { entry, problems } = readRegistryEntry(value, positionOf)
      return { file, entry, problems: [...others, ...problems] }
    } catch (reason) {
      const position = reason instanceof FileTextError ? reason.position : null
      const problem = { message: messageOf(reason), fix: '', position }
      return { file, entry: emptyRegistryEntry, problems: [...others, problem] }
    }
  } catch (reason) {
    const problem = { message: messageOf(reason), fix: '', position: null }
    return { file, entry: emptyRegistryEntry, problems: [...others, problem] }
  }
}

export class RegistryReader {
  readonly #log: Log
  readonly #store: RepositoryStore
  readonly #roots: readonly string[]
  readonly #known = new Map<string, Known>()

  constructor(deps: { readonly log: Log; readonly store: RepositoryStore }, roots: readonly string[]) {
    this.#log = deps.log.from('registry-reader.ts')
    this.#store = deps.store
    this.#roots = roots
  }

  /** The record of the model in the folder `root`, or in the repository that has the model. Cached until the file changes. */
  async read(key: ModelKey, root: string | null = null): Promise<RegistryRecord> {
    const { name } = splitModelKey(key)
    for (const place of root === null ? this.#rootsOf(key) : [root]) {
      const found = await findFiles(this.#store, place, name)
      const [first] = found
      if (first === undefined) continue
      const known = this.#known.get(key)
      const stamp = found.map((file) => file.stamp).join('\n')
      if (known?.stamp === stamp) return known.record
      const record = await readFound(this.#store, place, name, first, found)
      if (this.#known.size >= maxRecords) this.#known.clear()
      this.#known.set(key, { stamp, record, isLogged: false })
      return record
    }
    this.#known.delete(key)
    return noRegistryRecord
  }

  /** Logs what is wrong with the file, once per content of the file. */
  async report(key: ModelKey, root: string | null = null): Promise<void> {
    const { file, problems } = await this.read(key, root)
    const known = this.#known.get(key)
    if (known === undefined || known.isLogged) return
    known.isLogged = true
    for (const { message, fix, position } of problems) {
      const place = position === null ? file : `${file}:${position.line}:${position.column}`
      this.#log.warning(`registry of model '${modelLabel(key)}': ${place}: ${message}${fix === '' ? '' : `; ${fix}`}`)
    }
  }

  /** The model's folder on this machine; null when no repository has the model, or when it is not downloaded yet. */
  async directoryOf(key: ModelKey): Promise<string | null> {
    const { name } = splitModelKey(key)
    for (const root of this.#rootsOf(key)) {
      const stat = await this.#store.stat(root, name).catch(() => null)
      if (stat?.isDirectory === true) return this.#store.localise(root, name)
    }
    return null
  }

  /** The repositories that may have the model; with namespaces the key names the repository. */
  #rootsOf(key: ModelKey): readonly string[] {
    const { namespace, name } = splitModelKey(key)
    if (modelNameProblem(name) !== null) return []
    return namespace === undefined ? this.#roots : this.#roots.filter((root) => namespaceOf(root) === namespace)
  }
}

/** Version folders in a model's folder, ascending. */
export async function versionFolders(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch(() => [])
  return names.filter(isVersionName).sort(compareVersions)
}
