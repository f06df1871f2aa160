// Where TorchServe's archives come from and go to: a file of the model store, or an address; unpacked into a folder of this
// process, whose version folders are models of the backend `torchserve`.

import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { LinearPattern } from '../../base/linear-pattern.ts'
import { realPathInside } from '../../base/safe-path.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { uploadPrefix } from '../stale-uploads.ts'
import type { ArchiveLimits } from '../cloud/unpack-archive.ts'
import { installRequirements } from './install-requirements.ts'
import { unpackTorchArchive, type TorchArchive } from './torch-archive.ts'
import { servingOf, torchConfigText, type TorchServing } from './torch-config-text.ts'

type TorchArchiveOptions = {
  /** '' for none. */
  readonly modelStore: string
  /** Patterns of addresses that may be downloaded; none: only files of the model store. */
  readonly allowedUrls: readonly LinearPattern[]
  readonly limits: ArchiveLimits
  /** Where neither the call nor the archive says anything. */
  readonly defaults: Partial<TorchServing>
  /** The most bytes of a download. */
  readonly maxArchiveBytes: number
  readonly downloadTimeoutMs: number
  /** The Python that installs requirements; '' installs none. */
  readonly requirementsPython: string
}

/** How long `pip install` of one archive may take. */
const longestInstallMs = 600_000

export class TorchArchives {
  readonly #options: TorchArchiveOptions
  #root: Promise<string> | null = null
  #count = 0

  constructor(options: TorchArchiveOptions) {
    this.#options = options
  }

  /** The folder of a model that has none yet. It holds one folder for each version. */
  async newFolder(): Promise<string> {
    this.#root ??= uploadPrefix().then((prefix) => mkdtemp(path.join(tmpdir(), prefix)))
    const folder = path.join(await this.#root, `model-${this.#count++}`)
    await mkdir(folder)
    return folder
  }

  /** NOT_FOUND: there is no such archive. INVALID_ARG: it cannot be served. */
  async unpack(url: string, folder: string, given: Partial<TorchServing>): Promise<[TorchArchive, TorchServing]> {
    await mkdir(folder)
    try {
      const { file, isTemporary } = await this.#fileOf(url, folder)
      const archive = await unpackTorchArchive(file, folder, this.#options.limits)
      if (isTemporary) await rm(file)
      const { requirementsPython } = this.#options
      if (requirementsPython !== '' && archive.requirementsFile !== '') {
        await installRequirements(requirementsPython, folder, archive.requirementsFile, longestInstallMs)
      }
      const serving = servingOf(archive, given, this.#options.defaults)
      await writeTorchSettings(folder, archive, serving)
      return [archive, serving]
    } catch (reason) {
      await rm(folder, { recursive: true, force: true })
      throw reason
    }
  }

  /** The archives of the model store, for a start with all of them. */
  async stored(): Promise<string[]> {
    const { modelStore } = this.#options
    if (modelStore === '') return []
    return (await readdir(modelStore)).filter((name) => /\.(mar|tar\.gz|tgz)$/.test(name)).sort()
  }

  readonly configText = torchConfigText

  async move(from: string, to: string): Promise<void> {
    await rename(from, to)
  }

  async remove(folder: string): Promise<void> {
    await rm(folder, { recursive: true, force: true })
  }

  async close(): Promise<void> {
    if (this.#root !== null) await rm(await this.#root, { recursive: true, force: true })
  }

  async #fileOf(url: string, folder: string): Promise<{ file: string; isTemporary: boolean }> {
    if (/^https?:\/\//i.test(url)) return { file: await this.#download(url, `${folder}.download`), isTemporary: true }
    const name = url.replace(/^file:\/\//i, '')
    if (name.split(/[\\/]/).includes('..')) {
      throw ServerError.withoutStack('NOT_FOUND', `Relative path is not allowed in url: ${url}`)
    }
    const { modelStore } = this.#options
    const inside = path.isAbsolute(name) ? path.relative(modelStore, name) : name
    const isOutside = modelStore === '' || inside.startsWith('..') || path.isAbsolute(inside)
    const file = isOutside ? null : await realPathInside(modelStore, inside).catch(nothingOutside)
    if (file === null) throw ServerError.withoutStack('NOT_FOUND', `Model not found at: ${url}`)
    return { file, isTemporary: false }
  }

  async #download(url: string, file: string): Promise<string> {
    const { allowedUrls, maxArchiveBytes, downloadTimeoutMs } = this.#options
    if (!allowedUrls.some((pattern) => pattern.matches(url))) {
      throw ServerError.withoutStack('INVALID_ARG', `Given URL ${url} does not match any allowed URL(s)`)
    }
    let seen = 0
    const bounded = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
      for await (const chunk of chunks) {
        seen += chunk.length
        if (seen > maxArchiveBytes) throw tooLarge(url, maxArchiveBytes)
        yield chunk
      }
    }
    try {
      // A redirect could lead to an address that is not allowed.
      const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(downloadTimeoutMs) })
      if (!response.ok || response.body === null) throw new Error(`the answer is ${response.status}`)
      if (Number(response.headers.get('content-length') ?? 0) > maxArchiveBytes) throw tooLarge(url, maxArchiveBytes)
      await pipeline(response.body, bounded, createWriteStream(file, { flags: 'wx', mode: 0o600 }))
      return file
    } catch (reason) {
      await rm(file, { force: true })
      if (reason instanceof ServerError) throw reason
      throw ServerError.withoutStack('INVALID_ARG', `Failed to download archive from: ${url}: ${messageOf(reason)}`)
    }
  }
}

/** A link that leads out of the store counts as nothing: where it leads is not told. */
function nothingOutside(reason: unknown): null {
  if (reason instanceof ServerError && reason.code === 'INVALID_ARG') return null
  throw reason
}

const tooLarge = (url: string, most: number): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `the archive at ${url} has more than ${most} bytes`)

/** What the worker needs beside the manifest, for each version. */
export async function writeTorchSettings(folder: string, archive: TorchArchive, serving: TorchServing): Promise<void> {
  const { handler, serviceEnvelope, decodesInput, batchSize } = serving
  const settings = { handler, serviceEnvelope, decodesInput, batchSize, modelYamlConfig: archive.config }
  const file = path.join(folder, 'MAR-INF', 'galatea.json')
  // The archive may have something of this name.
  await rm(file, { recursive: true, force: true })
  await writeFile(file, `${JSON.stringify(settings, null, 2)}\n`)
}
