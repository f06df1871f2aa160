// A repository in an object store: keys are `<prefix><model>/<version>/<file>`.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { modelNameProblem } from '../model-name.ts'
import type { BlobCache } from './blob-cache.ts'
import { downloadFile, type DownloadSettings } from './download-file.ts'
import type { ObjectStore, StoredObject } from './object-store.ts'
import type { DownloadProgress, RemoteFile, RemoteTree } from './remote-tree.ts'
import { relativePathProblem, requireRelativePath, shownName } from './safe-name.ts'
import { isCredentialFailure, retryTransient, StalledError } from './transient-retry.ts'

export type TreeDependencies = { readonly clock: Clock; readonly log: Log; readonly cache: BlobCache }

/** More files than a model has; a bucket of pictures named by mistake must not be downloaded. */
const maxModelFiles = 20_000
/** One listing, with all its pages. */
const listingMs = 60_000

export class ObjectTree implements RemoteTree {
  readonly #dependencies: TreeDependencies
  readonly #settings: DownloadSettings
  readonly #openStore: () => Promise<ObjectStore>
  #store: ObjectStore
  readonly #prefix: string
  readonly #path: string
  #reported = new Set<string>()

  constructor(
    dependencies: TreeDependencies,
    settings: DownloadSettings,
    store: { readonly first: ObjectStore; readonly open: () => Promise<ObjectStore> },
    place: { readonly prefix: string; readonly path: string },
  ) {
    this.#dependencies = dependencies
    this.#settings = settings
    this.#store = store.first
    this.#openStore = store.open
    this.#prefix = place.prefix
    this.#path = place.path
  }

  async modelNames(): Promise<string[]> {
    const folders = await this.#list((signal) => this.#store.folders(this.#prefix, signal))
    const names: string[] = []
    for (const folder of folders) {
      const name = folder.slice(this.#prefix.length).replace(/\/$/, '')
      if (folder.startsWith(this.#prefix) && modelNameProblem(name) === null && relativePathProblem(name) === null) {
        names.push(name)
      } else this.#reportOnce(name)
    }
    return names
  }

  async files(model: string): Promise<RemoteFile[]> {
    const prefix = `${this.#prefix}${model}/`
    const objects = await this.#list((signal) => this.#store.objects(prefix, maxModelFiles, signal))
    if (objects.length > maxModelFiles) {
      throw new ServerError('INVALID_ARG', `model '${model}' in ${this.#path} has more than ${maxModelFiles} files`)
    }
    const where = `an object of model '${model}' in ${this.#path}`
    return objects
      .filter(({ key }) => key.startsWith(prefix) && key !== prefix)
      .map(({ key, sizeBytes, tag, md5 }) => {
        // Tools for people make folders by writing an empty object with such a key.
        const isFolder = key.endsWith('/')
        const path = requireRelativePath(key.slice(prefix.length, isFolder ? -1 : undefined), where)
        return { path, isFolder, sizeBytes, tag, md5 }
      })
      .sort((a, b) => (a.path < b.path ? -1 : 1))
  }

  async fetch(model: string, file: RemoteFile, progress: DownloadProgress): Promise<string> {
    const { cache } = this.#dependencies
    const key = `${this.#prefix}${model}/${file.path}`
    const object: StoredObject = { key, sizeBytes: file.sizeBytes, tag: file.tag, md5: file.md5 }
    const source = JSON.stringify([this.#store.identity, key, file.tag, file.sizeBytes])
    const known = await cache.find(source)
    if (known !== null) {
      progress(known.sizeBytes)
      return known.sha256
    }
    const download = {
      source,
      name: `'${model}/${file.path}' of ${this.#path}`,
      sizeBytes: file.sizeBytes,
      limitBytes: file.sizeBytes,
      md5: file.md5,
      read: (offset: number, signal: AbortSignal) => this.#store.read(object, offset, signal),
    }
    return (await downloadFile(this.#dependencies, this.#settings, download, progress)).sha256
  }

  close(): void {
    this.#store.close()
  }

  /** With credentials that are refused, those of now are tried once. */
  async #list<Value>(list: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    try {
      try {
        return await this.#listWithRetries(list)
      } catch (reason) {
        if (!isCredentialFailure(reason)) throw reason
        const renewed = await this.#openStore()
        this.#store.close()
        this.#store = renewed
        return await this.#listWithRetries(list)
      }
    } catch (reason) {
      throw ServerError.from(reason, `${this.#path} cannot be listed: `)
    }
  }

  #listWithRetries<Value>(list: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    const { clock } = this.#dependencies
    return retryTransient(clock, this.#settings.retry, async () => {
      const abort = new AbortController()
      let isLate = false
      const cancel = clock.after(listingMs * 1e6, () => {
        isLate = true
        abort.abort()
      })
      try {
        return await list(abort.signal)
      } catch (reason) {
        throw isLate ? new StalledError(`the listing took longer than ${listingMs / 1000} s`) : reason
      } finally {
        cancel()
      }
    })
  }

  #reportOnce(name: string): void {
    if (this.#reported.has(name) || this.#reported.size > 1000) return
    this.#reported.add(name)
    this.#dependencies.log.warning(`a folder of ${this.#path} is left out: ${shownName(name)} is no name of a model`)
  }
}
