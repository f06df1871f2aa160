// What the rest of the server sees of a repository elsewhere: ordinary folders, `<view>/<n>/<model>/<version>/<file>`,
// whose files are links to the cache. A view appears whole, under a number of its own, and is never changed: what was
// loaded from the one before goes on reading the same files.

import { mkdir, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { BlobCache } from './blob-cache.ts'
import { DownloadLog } from './download-log.ts'
import type { DownloadProgress, RemoteFile, RemoteTree } from './remote-tree.ts'
import type { Turnstile } from '../../base/turnstile.ts'

export type ModelView = {
  /** `<view>/<n>`; the model is the folder of its name in it. */
  readonly root: string
  /** Of the listing it was made from. */
  readonly listing: string
  /** By `<model>/<path>`: what stands for the content. */
  readonly contents: ReadonlyMap<string, string>
}

export type ModelViewsDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly cache: BlobCache
  readonly tree: RemoteTree
  /** Shared by all repositories: how many files come at the same time. */
  readonly turnstile: Turnstile
}

/** Another server may evict a file between the look and the link. */
const linkAttempts = 3

export class ModelViews {
  readonly #dependencies: ModelViewsDependencies
  readonly #directory: string
  readonly #path: string
  readonly #current = new Map<string, ModelView>()
  /** Views that were replaced: what still serves may read them. */
  readonly #old = new Map<string, ModelView[]>()
  readonly #syncs = new Map<string, Promise<ModelView | null>>()
  #count = 0

  constructor(dependencies: ModelViewsDependencies, directory: string, repositoryPath: string) {
    this.#dependencies = dependencies
    this.#directory = directory
    this.#path = repositoryPath
  }

  current(model: string): ModelView | null {
    return this.#current.get(model) ?? null
  }

  /** Brings a model up to date; null when it is not there. Several who ask at the same time get the same answer. */
  sync(model: string): Promise<ModelView | null> {
    const running = this.#syncs.get(model)
    if (running !== undefined) return running
    const sync = this.#sync(model).finally(() => this.#syncs.delete(model))
    this.#syncs.set(model, sync)
    return sync
  }

  async #sync(model: string): Promise<ModelView | null> {
    const files = await this.#dependencies.tree.files(model)
    if (files.length === 0) return null
    const listing = files.map((file) => JSON.stringify([file.path, file.isFolder, file.tag, file.sizeBytes])).join('\n')
    const current = this.#current.get(model)
    if (current?.listing === listing) return current
    refuseCollisions(model, files)
    const root = path.join(this.#directory, String(++this.#count))
    const draft = `${root}.draft`
    let view: ModelView
    try {
      view = { root, listing, contents: await this.#fill(model, path.join(draft, model), files) }
      await rename(draft, root)
    } catch (reason) {
      await rm(draft, { recursive: true, force: true })
      throw reason
    }
    this.#current.set(model, view)
    if (current !== undefined) await this.#retire(model, current)
    await this.#dependencies.cache.evict()
    return view
  }

  async #fill(model: string, folder: string, all: readonly RemoteFile[]): Promise<Map<string, string>> {
    const { clock, log, turnstile } = this.#dependencies
    await mkdir(folder, { recursive: true })
    const folders = all.map((file) => (file.isFolder ? file.path : path.posix.dirname(file.path)))
    for (const name of new Set(folders)) await mkdir(path.join(folder, name), { recursive: true })
    const files = all.filter((file) => !file.isFolder)
    const downloads = new DownloadLog({ clock, log }, `model '${model}' from ${this.#path}`, files)
    const contents = new Map<string, string>()
    let isFailed = false
    try {
      const outcomes = await Promise.allSettled(
        files.map((file) =>
          turnstile.pass(async () => {
            // One that failed for good fails the model: the rest need not come.
            if (isFailed) return
            try {
              const target = path.join(folder, file.path)
              const sha256 = await this.#link(model, file, target, (bytes) => downloads.add(bytes))
              contents.set(`${model}/${file.path}`, sha256)
              downloads.finishFile()
            } catch (reason) {
              isFailed = true
              throw reason
            }
          }),
        ),
      )
      const failed = outcomes.find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      return contents
    } finally {
      downloads.close()
    }
  }

  async #link(model: string, file: RemoteFile, target: string, progress: DownloadProgress): Promise<string> {
    const { cache, tree } = this.#dependencies
    for (let attempt = 1; ; attempt++) {
      const sha256 = await tree.fetch(model, file, progress)
      try {
        await cache.linkTo(sha256, target)
        return sha256
      } catch (reason) {
        if ((reason as NodeJS.ErrnoException).code !== 'ENOENT' || attempt >= linkAttempts) throw reason
        progress(-file.sizeBytes)
      }
    }
  }

  /** The last few are kept: a model whose newer files do not load goes on serving from older ones. */
  async #retire(model: string, view: ModelView): Promise<void> {
    const kept = [...(this.#old.get(model) ?? []), view]
    for (const old of kept.splice(0, kept.length - maxOldViews)) await rm(old.root, { recursive: true, force: true })
    this.#old.set(model, kept)
  }
}

const maxOldViews = 4

/** In an object store `1` may be a file and a folder at once; on a disk it may not. */
function refuseCollisions(model: string, files: readonly RemoteFile[]): void {
  const names = new Set<string>()
  const folders = new Set<string>()
  for (const { path: name, isFolder } of files) {
    if (isFolder) folders.add(name)
    else if (names.has(name))
      throw new ServerError('INVALID_ARG', `model '${model}' has two files with the name '${name}'`)
    else names.add(name)
    for (let folder = path.posix.dirname(name); folder !== '.'; folder = path.posix.dirname(folder)) folders.add(folder)
  }
  const both = [...folders].find((folder) => names.has(folder))
  if (both !== undefined) {
    throw new ServerError('INVALID_ARG', `model '${model}' has '${both}' both as a file and as a folder`)
  }
}
