import { readdir, readFile, stat } from 'node:fs/promises'
import type { Dirent } from 'node:fs'
import { join } from 'node:path'
import { realPathInside } from '../base/safe-path.ts'
import { ServerError } from '../base/server-error.ts'
import { Turnstile } from '../base/turnstile.ts'
import type { ContentIndex } from './content-index.ts'
import type { ListOptions, RepositoryStore, StoreEntry, StoreEntryKind, StoreStat } from './repository-store.ts'

/** Files that are looked at together: a folder may have more of them than the process may open. */
const filesTogether = 32

/** Repositories on a disk of this machine. */
export class LocalStore implements RepositoryStore {
  readonly #contents: ContentIndex | null
  readonly #turnstile = new Turnstile(filesTogether)

  /** Without `contents` a file is known by its time and size. */
  constructor(contents: ContentIndex | null = null) {
    this.#contents = contents
  }

  async list(root: string, path: string, { isExact = false }: ListOptions = {}): Promise<StoreEntry[]> {
    const folder = await this.#existing(root, path)
    const entries = await readdir(folder, { withFileTypes: true }).catch((reason: unknown) => {
      throw ServerError.from(reason, `cannot list '${join(root, path)}': `)
    })
    const look = (entry: Dirent): Promise<StoreEntry> =>
      this.#turnstile.pass(() => this.#entry(root, path, folder, entry, isExact))
    const found = await Promise.all(entries.map(look))
    return found.sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  async stat(root: string, path: string): Promise<StoreStat | null> {
    const real = await realPathInside(root, path)
    if (real === null) return null
    const found = await stat(real)
    return { isDirectory: found.isDirectory(), modifiedMs: found.mtimeMs, sizeBytes: found.size }
  }

  async readText(root: string, path: string, limitBytes: number): Promise<string> {
    const real = await this.#existing(root, path)
    const found = await stat(real)
    const { size } = found
    if (!found.isFile()) throw new ServerError('INVALID_ARG', `'${join(root, path)}' is no file`)
    if (size > limitBytes) {
      const what = `'${join(root, path)}' is too large: it has ${size} bytes, at most ${limitBytes} are read`
      throw new ServerError('INVALID_ARG', what)
    }
    return readFile(real, 'utf8').catch((reason: unknown) => {
      throw ServerError.from(reason, `cannot read '${join(root, path)}': `)
    })
  }

  localise(root: string, path: string): Promise<string> {
    return Promise.resolve(join(root, path))
  }

  async #existing(root: string, path: string): Promise<string> {
    const real = await realPathInside(root, path)
    if (real === null) throw new ServerError('NOT_FOUND', `no such file or directory: '${join(root, path)}'`)
    return real
  }

  /** `folder` is the real path of `path` and lies inside the root, so everything in it that is no link lies inside too. */
  async #entry(root: string, path: string, folder: string, entry: Dirent, isExact: boolean): Promise<StoreEntry> {
    const isLink = entry.isSymbolicLink()
    const named = { name: entry.name, isLink, modifiedMs: 0, sizeBytes: 0 }
    if (!isLink && !entry.isFile()) return { ...named, kind: kindOf(entry) }
    try {
      const real = isLink ? await realPathInside(root, join(path, entry.name)) : join(folder, entry.name)
      if (real === null) return { ...named, kind: 'other' }
      const found = await stat(real)
      const kind = kindOf(found)
      if (kind !== 'file') return { ...named, kind }
      const file = { ...named, kind, modifiedMs: found.mtimeMs, sizeBytes: found.size }
      if (this.#contents === null) return file
      // Under the name in the repository: a link that now leads to a copy of the same bytes changes nothing.
      const contentId = await this.#contents.identify(join(root, path, entry.name), found, isExact)
      return { ...file, contentId }
    } catch (reason) {
      if (reason instanceof ServerError && reason.code === 'INVALID_ARG') return { ...named, kind: 'outside' }
      // The entry was removed after the listing.
      if ((reason as NodeJS.ErrnoException).code === 'ENOENT') return { ...named, kind: 'other' }
      throw reason
    }
  }
}

type Kinds = Pick<Dirent, 'isFile' | 'isDirectory' | 'isFIFO' | 'isCharacterDevice' | 'isBlockDevice'>

function kindOf(entry: Kinds): StoreEntryKind {
  if (entry.isDirectory()) return 'directory'
  if (entry.isFile()) return 'file'
  return entry.isFIFO() || entry.isCharacterDevice() || entry.isBlockDevice() ? 'device' : 'other'
}
