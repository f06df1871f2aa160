// The RepositoryStore for repositories on this machine and elsewhere alike. Looking at a model that lies elsewhere brings
// it here first, as far as it has changed; from then on its files are ordinary ones.

import { createHash } from 'node:crypto'
import path from 'node:path'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { LocalStore } from '../local-store.ts'
import type { ListOptions, RepositoryStore, StoreEntry, StoreStat } from '../repository-store.ts'
import { ModelViews, type ModelView, type ModelViewsDependencies } from './model-views.ts'
import type { RemoteTree } from './remote-tree.ts'

/** What the trees and views of a store are made with; made on first use, because most servers need none of it. */
export type CloudParts = Omit<ModelViewsDependencies, 'tree'> & {
  readonly openTree: (root: string) => Promise<RemoteTree>
}

type Repository = { readonly tree: RemoteTree; readonly views: ModelViews }

export class CloudStore implements RepositoryStore {
  readonly #log: Log
  readonly #local: RepositoryStore
  /** Files of views need not be read to be known: they came by their hash. */
  readonly #views = new LocalStore()
  readonly #isRemote: (root: string) => boolean
  readonly #openParts: () => Promise<CloudParts>
  #parts: Promise<CloudParts> | null = null
  readonly #repositories = new Map<string, Promise<Repository>>()

  constructor(
    dependencies: {
      readonly log: Log
      readonly local: RepositoryStore
      readonly openParts: () => Promise<CloudParts>
    },
    isRemote: (root: string) => boolean,
  ) {
    this.#log = dependencies.log.from('cloud-store.ts')
    this.#local = dependencies.local
    this.#openParts = dependencies.openParts
    this.#isRemote = isRemote
  }

  async list(root: string, folder: string, options: ListOptions = {}): Promise<StoreEntry[]> {
    if (!this.#isRemote(root)) return this.#local.list(root, folder, options)
    if (folder === '' || folder === '.') return this.#models(root)
    if (!folder.includes('/')) {
      const { views } = await this.#repository(root)
      if ((await views.sync(folder)) === null) throw notThere(root, folder)
    }
    const view = await this.#view(root, folder)
    const entries = await this.#views.list(view.root, folder)
    return entries.map((entry) => {
      const contentId = view.contents.get(path.posix.join(folder, entry.name))
      return contentId === undefined ? entry : { ...entry, contentId }
    })
  }

  async stat(root: string, file: string): Promise<StoreStat | null> {
    if (!this.#isRemote(root)) return this.#local.stat(root, file)
    return this.#views.stat((await this.#view(root, file)).root, file)
  }

  async readText(root: string, file: string, limitBytes: number): Promise<string> {
    if (!this.#isRemote(root)) return this.#local.readText(root, file, limitBytes)
    return this.#views.readText((await this.#view(root, file)).root, file, limitBytes)
  }

  async localise(root: string, folder: string): Promise<string> {
    if (!this.#isRemote(root)) return this.#local.localise(root, folder)
    return this.#views.localise((await this.#view(root, folder)).root, folder)
  }

  /** Gives the views back; the cache stays for the next start. */
  async close(): Promise<void> {
    const parts = await this.#parts?.catch(() => null)
    for (const repository of this.#repositories.values()) {
      await repository.then(
        ({ tree }) => tree.close(),
        () => undefined,
      )
    }
    await parts?.cache.close()
  }

  async #models(root: string): Promise<StoreEntry[]> {
    try {
      const { tree } = await this.#repository(root)
      const names = (await tree.modelNames()).sort()
      return names.map((name) => ({ name, kind: 'directory', isLink: false, modifiedMs: 0, sizeBytes: 0 }))
    } catch (reason) {
      // Whoever asked says only that the repository cannot be read.
      this.#log.error(messageOf(reason))
      throw reason
    }
  }

  /** What stands for the repository on this machine as far as the model goes that a path leads into. */
  async #view(root: string, file: string): Promise<ModelView> {
    const model = path.posix.normalize(file).split('/')[0] ?? ''
    const view = (await this.#repository(root)).views.current(model)
    if (view === null) throw notThere(root, file)
    return view
  }

  #repository(root: string): Promise<Repository> {
    const known = this.#repositories.get(root)
    if (known !== undefined) return known
    const opened = this.#open(root)
    this.#repositories.set(root, opened)
    // Credentials that were missing may be there the next time.
    opened.catch(() => this.#repositories.delete(root))
    return opened
  }

  async #open(root: string): Promise<Repository> {
    this.#parts ??= this.#openParts()
    this.#parts.catch(() => {
      this.#parts = null
    })
    const { openTree, ...parts } = await this.#parts
    const tree = await openTree(root)
    const name = createHash('sha256').update(root).digest('hex').slice(0, 16)
    const directory = path.join(parts.cache.lease.directory, name)
    return { tree, views: new ModelViews({ ...parts, tree }, directory, root) }
  }
}

const notThere = (root: string, file: string): ServerError =>
  new ServerError('NOT_FOUND', `no such file or directory: '${root}/${file}'`)
