// Models whose folders lie in none of the repositories, under names that their front end chose: the models of a TensorFlow
// Serving configuration, those that SageMaker loads. To the rest of the server they are one more repository.

import { createHash } from 'node:crypto'
import { mkdir, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { newOwnFolder } from '../base/own-folder.ts'
import { ServerError } from '../base/server-error.ts'
import type { FolderMap, MappedModel } from '../model/folder-map.ts'
import { modelNameProblem } from './model-name.ts'
import type { ListOptions, RepositoryStore, StoreEntry, StoreStat } from './repository-store.ts'
import { isVersionName } from './version-policy.ts'

/** The root of the repository that the mapped models make up. */
export const mappedRoot = 'mapped:'

/** The most models that are mapped at a time. Each costs a listing when repositories are polled. */
const mostMappedModels = 10_000

const configName = 'config.pbtxt'
const savedModelName = 'model.savedmodel'
/** A version folder that holds one of these is itself a SavedModel, as TensorFlow Serving has it. */
const savedModelFiles = ['saved_model.pb', 'saved_model.pbtxt']

/** A place in the store underneath. */
type Place = { readonly root: string; readonly path: string }

export class MappedFolders implements RepositoryStore, FolderMap {
  readonly #inner: RepositoryStore
  readonly #models = new Map<string, MappedModel>()
  /** By name: the folders of versions that begin with zeros, by version. */
  readonly #padded = new Map<string, ReadonlyMap<string, string>>()
  /** By name: a folder of links for a model whose SavedModels are its version folders, or whose versions begin with zeros. */
  readonly #links = new Map<string, { readonly to: string; readonly folder: Promise<string> }>()

  constructor(inner: RepositoryStore) {
    this.#inner = inner
  }

  get models(): ReadonlyMap<string, MappedModel> {
    return this.#models
  }

  /** The folder is read when the model is polled. Throws INVALID_ARG for a name that no model can have. */
  map(name: string, model: MappedModel): void {
    const problem = modelNameProblem(name)
    if (problem !== null) throw new ServerError('INVALID_ARG', problem)
    if (!this.#models.has(name) && this.#models.size >= mostMappedModels) {
      throw new ServerError('UNAVAILABLE', `${mostMappedModels} models are mapped, which is the most: unload some`)
    }
    this.#models.set(name, { ...model, folder: model.folder.replace(/(?<=.)\/+$/, '') })
  }

  /** Call this when the model is gone: a model that serves may still read its files. */
  async unmap(name: string): Promise<void> {
    this.#models.delete(name)
    this.#padded.delete(name)
    await this.#removeLinks(name)
  }

  /** The name under which a folder is mapped is the name of its model, whatever its configuration says. */
  renames(root: string): boolean {
    return root === mappedRoot
  }

  async list(root: string, path: string, options?: ListOptions): Promise<StoreEntry[]> {
    if (root !== mappedRoot) return this.#inner.list(root, path, options)
    if (path === '') return [...this.#models.keys()].sort().map(folderEntry)
    const [name = '', version = ''] = path.split('/')
    const { configText, versionPolicyText = '' } = this.#modelOf(name)
    if (path === name) {
      const own = await this.#listIn(name, '', options)
      // Stands for the policy in the fingerprint of the model.
      const entries = versionPolicyText === '' ? own : [...own, textEntry('.version_policy', versionPolicyText)]
      const hasConfig = configText === null || entries.some((entry) => entry.name === configName)
      return hasConfig ? entries : [...entries, textEntry(configName, configText)]
    }
    if (!(await this.#isSavedModel(name, version))) return this.#listIn(name, path.slice(name.length + 1), options)
    if (path === `${name}/${version}`) return [folderEntry(savedModelName)]
    return this.#listIn(name, insideSavedModel(name, version, path), options)
  }

  async stat(root: string, path: string): Promise<StoreStat | null> {
    if (root !== mappedRoot) return this.#inner.stat(root, path)
    const [name = '', version = ''] = path.split('/')
    const inside = path.slice(name.length + 1)
    const isSavedModel = isVersionName(version) && (await this.#isSavedModel(name, version))
    const place = this.#place(name, isSavedModel ? insideSavedModel(name, version, path) : inside)
    const found = await this.#inner.stat(place.root, place.path)
    const { configText } = this.#modelOf(name)
    if (found !== null || inside !== configName || configText === null) return found
    return { isDirectory: false, modifiedMs: 0, sizeBytes: configText.length }
  }

  async readText(root: string, path: string, limitBytes: number): Promise<string> {
    if (root !== mappedRoot) return this.#inner.readText(root, path, limitBytes)
    const [name = ''] = path.split('/')
    const place = this.#place(name, path.slice(name.length + 1))
    const { configText, versionPolicyText = '' } = this.#modelOf(name)
    try {
      const text = await this.#inner.readText(place.root, place.path, limitBytes)
      const isBare = path === `${name}/${configName}` && !text.includes('version_policy')
      return isBare ? `${text}\n${versionPolicyText}` : text
    } catch (reason) {
      if (path !== `${name}/${configName}` || configText === null) throw reason
      return configText
    }
  }

  async localise(root: string, path: string): Promise<string> {
    if (root !== mappedRoot) return this.#inner.localise(root, path)
    const place = this.#place(path, '')
    const folder = await this.#inner.localise(place.root, place.path)
    const versions = (await this.#listIn(path, '')).filter(
      ({ name, kind }) => kind === 'directory' && isVersionName(name),
    )
    const links = new Map<string, string>()
    let isAsFound = true
    for (const { name: version } of versions) {
      const own = this.#padded.get(path)?.get(version) ?? version
      const isSavedModel = await this.#isSavedModel(path, version)
      links.set(isSavedModel ? join(version, savedModelName) : version, own)
      isAsFound &&= !isSavedModel && own === version
    }
    return isAsFound ? folder : this.#link(path, folder, links)
  }

  /** Backends look for `VERSION/model.savedmodel`, and TensorFlow Serving has the SavedModel in `VERSION`. */
  async #link(name: string, to: string, linked: ReadonlyMap<string, string>): Promise<string> {
    const known = this.#links.get(name)
    if (known !== undefined && known.to !== to) await this.#removeLinks(name)
    const links = this.#links.get(name) ?? { to, folder: newOwnFolder('upload') }
    this.#links.set(name, links)
    const folder = join(await links.folder, name)
    for (const [at, own] of linked) {
      await mkdir(dirname(join(folder, at)), { recursive: true })
      const link = symlink(join(to, own), join(folder, at))
      await link.catch((reason: NodeJS.ErrnoException) => {
        if (reason.code !== 'EEXIST') throw reason
      })
    }
    return folder
  }

  async #removeLinks(name: string): Promise<void> {
    const links = this.#links.get(name)
    this.#links.delete(name)
    if (links !== undefined) await rm(await links.folder, { recursive: true, force: true })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#links.keys()].map((name) => this.#removeLinks(name)))
  }

  #modelOf(name: string): MappedModel {
    const model = this.#models.get(name)
    if (model === undefined) throw new ServerError('NOT_FOUND', `no such file or directory: '${name}'`)
    return model
  }

  #place(name: string, path: string): Place {
    const { folder } = this.#modelOf(name)
    const own = basename(folder)
    const [version = '', ...inside] = path.split('/')
    const padded = [this.#padded.get(name)?.get(version) ?? version, ...inside].join('/')
    return { root: dirname(folder), path: path === '' ? own : `${own}/${padded}` }
  }

  async #listIn(name: string, path: string, options?: ListOptions): Promise<StoreEntry[]> {
    const place = this.#place(name, path)
    const entries = await this.#inner.list(place.root, place.path, options)
    if (path !== '' || this.#modelOf(name).hasPaddedVersions !== true) return entries
    const plain = withPlainVersions(entries)
    this.#padded.set(name, new Map(entries.map((entry, i) => [(plain[i] as StoreEntry).name, entry.name])))
    return plain.toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  async #isSavedModel(name: string, version: string): Promise<boolean> {
    if (!isVersionName(version)) return false
    for (const file of savedModelFiles) {
      const place = this.#place(name, `${version}/${file}`)
      if ((await this.#inner.stat(place.root, place.path)) !== null) return true
    }
    return false
  }
}

/** Version folders without the zeros in front of their names; of two folders for one version, the one without zeros counts. */
function withPlainVersions(entries: readonly StoreEntry[]): StoreEntry[] {
  const taken = new Set(entries.map(({ name }) => name))
  return entries.map((entry) => {
    const name = entry.name.replace(/^0+(?=\d)/, '')
    if (entry.kind !== 'directory' || taken.has(name) || !isVersionName(name)) return entry
    taken.add(name)
    return { ...entry, name }
  })
}

/** `m/3/model.savedmodel/variables` → `3/variables` */
const insideSavedModel = (name: string, version: string, path: string): string =>
  `${version}${path.slice(`${name}/${version}/${savedModelName}`.length)}`

const folderEntry = (name: string): StoreEntry => ({
  name,
  kind: 'directory',
  isLink: false,
  modifiedMs: 0,
  sizeBytes: 0,
})

const textEntry = (name: string, text: string): StoreEntry => ({
  name,
  kind: 'file',
  isLink: false,
  modifiedMs: 0,
  sizeBytes: text.length,
  contentId: createHash('sha256').update(text).digest('hex'),
})
