// A repository that is one .tar or .tar.gz file behind HTTP. It is fetched as a whole when its ETag changes, unpacked into
// the cache, and from then on served from there.

import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { ServerError } from '../../base/server-error.ts'
import type { ArchiveLocation } from './cloud-location.ts'
import { downloadFile, type DownloadSettings } from './download-file.ts'
import { HttpArchive, type ArchiveState } from './http-archive.ts'
import type { TreeDependencies } from './object-tree.ts'
import type { DownloadProgress, RemoteFile, RemoteTree } from './remote-tree.ts'
import { DownloadLog } from './download-log.ts'
import { retryTransient } from './transient-retry.ts'
import { unpackArchive, type ArchiveFile, type ArchiveLimits } from './unpack-archive.ts'

const defaultArchiveLimits: ArchiveLimits = { maxEntries: 100_000, maxUnpackedBytes: 256 * 2 ** 30 }
const maxArchiveBytes = 256 * 2 ** 30

type Unpacked = { readonly tag: string; readonly files: readonly ArchiveFile[] }

export class ArchiveTree implements RemoteTree {
  readonly #dependencies: TreeDependencies
  readonly #settings: DownloadSettings
  readonly #limits: ArchiveLimits
  readonly #path: string
  readonly #archive: HttpArchive
  #unpacked: Unpacked | null = null
  #refreshing: Promise<Unpacked> | null = null

  constructor(
    dependencies: TreeDependencies,
    settings: DownloadSettings,
    location: ArchiveLocation,
    limits: ArchiveLimits = defaultArchiveLimits,
  ) {
    this.#dependencies = dependencies
    this.#settings = settings
    this.#limits = limits
    this.#path = location.path
    this.#archive = new HttpArchive(location.url, this.#path)
  }

  async modelNames(): Promise<string[]> {
    const { files } = await this.#refresh()
    return [...new Set(files.filter((file) => file.path.includes('/')).map((file) => file.path.split('/')[0] ?? ''))]
  }

  async files(model: string): Promise<RemoteFile[]> {
    const { files } = this.#unpacked ?? (await this.#refresh())
    return files
      .filter((file) => file.path.startsWith(`${model}/`))
      .map(({ path, sha256, sizeBytes }) => {
        return { path: path.slice(model.length + 1), isFolder: sha256 === '', sizeBytes, tag: sha256, md5: null }
      })
  }

  async fetch(model: string, file: RemoteFile, progress: DownloadProgress): Promise<string> {
    const { cache } = this.#dependencies
    if ((await cache.find(contentSource(file.tag))) === null) {
      // Evicted since it was unpacked.
      await cache.remove(this.#notesSource(this.#unpacked?.tag ?? ''))
      this.#unpacked = null
      const { files } = await this.#refresh()
      if (!files.some(({ path, sha256 }) => path === `${model}/${file.path}` && sha256 === file.tag)) {
        throw new ServerError('UNAVAILABLE', `${this.#path} has changed while '${model}' was read from it`)
      }
    }
    progress(file.sizeBytes)
    return file.tag
  }

  close(): void {
    this.#unpacked = null
  }

  #refresh(): Promise<Unpacked> {
    this.#refreshing ??= this.#look().finally(() => {
      this.#refreshing = null
    })
    return this.#refreshing
  }

  async #look(): Promise<Unpacked> {
    const { clock, cache } = this.#dependencies
    const { retry, stallMs } = this.#settings
    const known = this.#unpacked
    let state: ArchiveState
    try {
      state = await retryTransient(clock, retry, () => this.#archive.state(known?.tag ?? null, stallMs))
    } catch (reason) {
      throw ServerError.from(reason, `${this.#path} cannot be reached: `)
    }
    if (known !== null && known.tag === state.tag) return known
    const notes = await cache.findNotes(this.#notesSource(state.tag))
    const files = (await this.#checkedNotes(notes)) ?? (await this.#download(state))
    this.#unpacked = { tag: state.tag, files: withoutTopFolder(files) }
    return this.#unpacked
  }

  async #download(state: ArchiveState): Promise<ArchiveFile[]> {
    const { cache, clock, log } = this.#dependencies
    const source = JSON.stringify(['archive', this.#path, state.tag])
    const downloads = new DownloadLog({ clock, log }, this.#path, [{ sizeBytes: state.sizeBytes ?? 0 }])
    try {
      const { sha256 } = await downloadFile(
        this.#dependencies,
        this.#settings,
        {
          source,
          name: this.#path,
          sizeBytes: state.sizeBytes,
          limitBytes: maxArchiveBytes,
          md5: null,
          read: (offset, signal) => this.#archive.read(offset, state.tag, signal),
        },
        (bytes) => downloads.add(bytes),
      )
      const files = await unpackArchive(cache.fileOf(sha256), this.#path, this.#limits, (content) =>
        this.#keep(content),
      )
      await cache.addNotes(this.#notesSource(state.tag), files)
      return files
    } finally {
      downloads.close()
      // Its content is in the cache, or it is of no use.
      await cache.remove(source)
    }
  }

  async #keep(content: AsyncIterable<Uint8Array>): Promise<{ sha256: string; sizeBytes: number }> {
    const { cache } = this.#dependencies
    const file = cache.temporaryFile()
    const hash = createHash('sha256')
    let sizeBytes = 0
    const out = await open(file, 'wx')
    try {
      for await (const chunk of content) {
        hash.update(chunk)
        sizeBytes += chunk.length
        await out.writeFile(chunk)
      }
    } finally {
      await out.close()
    }
    const blob = { sha256: hash.digest('hex'), sizeBytes }
    await cache.add(contentSource(blob.sha256), file, blob)
    return blob
  }

  /** What the cache says of an archive that was unpacked before, if all of it is still there. */
  async #checkedNotes(notes: unknown): Promise<ArchiveFile[] | null> {
    if (!Array.isArray(notes)) return null
    const files = notes as ArchiveFile[]
    for (const { sha256 } of files) {
      if (sha256 !== '' && (await this.#dependencies.cache.find(contentSource(sha256))) === null) return null
    }
    return files
  }

  #notesSource(tag: string): string {
    return JSON.stringify(['archive files', this.#path, tag])
  }
}

const contentSource = (sha256: string): string => JSON.stringify(['content', sha256])

/**
 * `tar czf models.tar.gz models/` puts everything below one folder. When that folder is no model itself (it has neither
 * a configuration nor versions), the models are in it.
 */
export function withoutTopFolder(files: readonly ArchiveFile[]): readonly ArchiveFile[] {
  const top = files[0]?.path.split('/')[0] ?? ''
  const inside = files.filter(({ path }) => path !== top)
  const isModel = (path: string): boolean =>
    path === `${top}/config.pbtxt` || /^[1-9]\d*(\/|$)/.test(path.slice(top.length + 1))
  const isAround = inside.length > 0 && inside.every(({ path }) => path.startsWith(`${top}/`) && !isModel(path))
  return isAround ? inside.map((file) => ({ ...file, path: file.path.slice(top.length + 1) })) : files
}
