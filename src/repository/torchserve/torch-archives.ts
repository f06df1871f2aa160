// Where TorchServe's archives come from and go to: a file of the model store, or an address; unpacked into a folder of this
// process, whose version folders are models of the backend `torchserve`.

import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { LinearPattern } from '../../base/linear-pattern.ts'
import { newOwnFolder } from '../../base/own-folder.ts'
import { realPathInside } from '../../base/safe-path.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { TorchModelSettings, TorchServing, UnpackedArchive } from '../../model/torch-archive.ts'
import { atMost } from '../cloud/unpack-archive.ts'
import { mostArchiveEntries, prepareTorchArchive } from './torch-archive.ts'
import { torchConfigText } from './torch-config-text.ts'

type TorchArchiveOptions = {
  /** '' for none. */
  readonly modelStore: string
  /** Patterns of addresses that may be downloaded; none: only files of the model store. */
  readonly allowedUrls: readonly LinearPattern[]
  /** The most bytes of a download. */
  readonly maxArchiveBytes: number
  readonly maxUnpackedBytes: number
  /** What an archive says nothing about. */
  readonly defaults: Partial<TorchServing>
  readonly settings?: TorchModelSettings
  /** Installs requirements; '' installs none. */
  readonly python: string
}

const longestDownloadMs = 3_600_000

export class TorchArchives {
  readonly #options: TorchArchiveOptions
  #root: Promise<string> | null = null
  #count = 0

  constructor(options: TorchArchiveOptions) {
    this.#options = options
  }

  async newFolder(): Promise<string> {
    this.#root ??= newOwnFolder('upload')
    const folder = path.join(await this.#root, String(this.#count++))
    await mkdir(folder)
    return folder
  }

  /** `name`: '' for that in the archive. NOT_FOUND: there is no such archive. INVALID_ARG: it cannot be served. */
  async unpack(url: string, given: Partial<TorchServing>, name = ''): Promise<UnpackedArchive> {
    const folder = await this.newFolder()
    const download = /^https?:\/\//i.test(url) ? `${folder}.download` : null
    const { python, defaults, settings = {}, maxUnpackedBytes } = this.#options
    const limits = { maxEntries: mostArchiveEntries, maxUnpackedBytes }
    try {
      const file = download === null ? await this.#stored(url) : await this.#download(url, download)
      const prepared = await prepareTorchArchive(file, folder, { limits, python, given, defaults, name, settings })
      return { folder, ...prepared }
    } catch (reason) {
      await rm(folder, { recursive: true, force: true })
      throw reason
    } finally {
      if (download !== null) await rm(download, { force: true })
    }
  }

  /** The archives of the model store, for a start with all of them. A folder may be one. */
  async stored(): Promise<string[]> {
    const { modelStore } = this.#options
    if (modelStore === '') return []
    const entries = await readdir(modelStore, { withFileTypes: true })
    const archives = entries.filter((entry) => entry.isDirectory() || /\.(mar|model|tar\.gz|tgz)$/.test(entry.name))
    return archives
      .map(({ name }) => name)
      .filter((name) => !name.startsWith('.'))
      .sort()
  }

  readonly configText = torchConfigText

  async close(): Promise<void> {
    if (this.#root !== null) await rm(await this.#root, { recursive: true, force: true })
  }

  async #stored(url: string): Promise<string> {
    const name = url.replace(/^file:\/\//i, '')
    if (name.split(/[\\/]/).includes('..')) {
      throw ServerError.withoutStack('NOT_FOUND', `Relative path is not allowed in url: ${url}`)
    }
    const { modelStore } = this.#options
    const inside = path.isAbsolute(name) ? path.relative(modelStore, name) : name
    // The store itself is no archive, although it is a folder.
    const isStore = modelStore === '' || path.resolve(modelStore, inside) === path.resolve(modelStore)
    const file = isStore ? null : await realPathInside(modelStore, inside).catch(nothingOutside)
    if (file === null) throw ServerError.withoutStack('NOT_FOUND', `Model not found at: ${url}`)
    return file
  }

  async #download(url: string, file: string): Promise<string> {
    const { allowedUrls, maxArchiveBytes } = this.#options
    const refused = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)
    if (!allowedUrls.some((pattern) => pattern.matches(url))) {
      throw refused(`Given URL ${url} does not match any allowed URL(s)`)
    }
    const tooLarge = (): ServerError => refused(`the archive at ${url} has more than ${maxArchiveBytes} bytes`)
    try {
      // A redirect could lead to an address that is not allowed.
      const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(longestDownloadMs) })
      if (!response.ok || response.body === null) throw new Error(`the answer is ${response.status}`)
      if (Number(response.headers.get('content-length') ?? 0) > maxArchiveBytes) throw tooLarge()
      const kept = createWriteStream(file, { flags: 'wx', mode: 0o600 })
      await pipeline(response.body, atMost(maxArchiveBytes, tooLarge), kept)
      return file
    } catch (reason) {
      throw reason instanceof ServerError
        ? reason
        : refused(`Failed to download archive from: ${url}: ${messageOf(reason)}`)
    }
  }
}

/** A path or a link that leads out of the store counts as nothing: where it leads is not told. */
function nothingOutside(reason: unknown): null {
  if (reason instanceof ServerError && reason.code === 'INVALID_ARG') return null
  throw reason
}
