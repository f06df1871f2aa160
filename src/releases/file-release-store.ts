// Rollouts in a folder of this machine (`--state-dir`): one file each, replaced in one step, so that a process that is killed in
// the middle of a write leaves the old file or the new one. The folder is made with the first write.

import { hash } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { FolderOwner } from '../base/folder-owner.ts'
import type { Log } from '../base/log.ts'
import { replaceFile } from '../base/replace-file.ts'
import { messageOf } from '../base/server-error.ts'
import { keptFolders } from './has-kept-releases.ts'
import type { ModelPins, ReleaseRecord } from './release-record.ts'
import type { KeptReleases, ReleaseStore } from './release-store.ts'

/** A file above this size was not written by this program. */
const largestFileBytes = 16 * 1024 * 1024

/** Without its end; the system takes 255 bytes. */
const longestFileName = 200

export class FileReleaseStore implements ReleaseStore {
  readonly #folder: string
  readonly #log: Log
  /** Writes of one file follow each other; of those that wait only the last one is done. */
  readonly #writes = new Map<string, Promise<void>>()
  readonly #owner: FolderOwner

  constructor(log: Log, folder: string) {
    this.#log = log.from('file-release-store.ts')
    this.#folder = folder
    this.#owner = new FolderOwner(folder)
  }

  async read(): Promise<KeptReleases> {
    const records = await this.#readAll<ReleaseRecord>('rollouts', ({ name, plan, state }) => isText(name) && isThere(plan) && isThere(state), ({ name }) => name) // prettier-ignore
    const pins = await this.#readAll<ModelPins>('models', ({ model, held }) => isText(model) && Array.isArray(held), ({ model }) => model) // prettier-ignore
    return { records, pins }
  }

  saveRecord(record: ReleaseRecord): Promise<void> {
    return this.#write(`rollouts/${fileName(record.name)}`, record)
  }

  savePins(pins: ModelPins): Promise<void> {
    return this.#write(`models/${fileName(pins.model)}`, pins)
  }

  async removeRecord(name: string): Promise<void> {
    await rm(path.join(this.#folder, 'rollouts', fileName(name)), { force: true })
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#writes.values())
    await this.#owner.leave()
  }

  async #readAll<T>(kind: string, isWhole: (value: Partial<T>) => boolean, nameOf: (value: T) => string): Promise<T[]> {
    const folder = path.join(this.#folder, kind)
    const names: string[] = await readdir(folder).catch(() => [])
    const found: T[] = []
    for (const name of names) {
      if (!name.endsWith('.json')) continue
      const file = path.join(folder, name)
      try {
        const text = await readFile(file, 'utf8')
        const value = text.length > largestFileBytes ? null : (JSON.parse(text) as Partial<T> | null)
        if (typeof value !== 'object' || value === null || !isWhole(value)) throw new Error('it is no such record')
        // Of a long name there may be an older file, from before such names were told apart.
        const own = fileName(nameOf(value as T))
        if (own === name || !names.includes(own)) found.push(value as T)
      } catch (reason) {
        this.#log.error(`'${file}' cannot be read and is left out: ${messageOf(reason)}`)
      }
    }
    return found
  }

  #write(file: string, value: unknown): Promise<void> {
    // The text is made now: the caller may go on with the next state.
    const text = JSON.stringify(value)
    const before = this.#writes.get(file) ?? Promise.resolve()
    const written = before.catch(() => undefined).then(() => this.#replace(path.join(this.#folder, file), text))
    this.#writes.set(file, written)
    return written
  }

  async #replace(file: string, text: string): Promise<void> {
    await this.#owner.take(keptFolders)
    await replaceFile(file, text)
  }
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isThere = (value: unknown): boolean => typeof value === 'object' && value !== null

/** Names of models may have any character and any length; a file's name may not. What is cut is told apart by a hash. */
function fileName(name: string): string {
  const encoded = encodeURIComponent(name).replaceAll('.', '%2E')
  if (encoded.length <= longestFileName) return `${encoded}.json`
  return `${encoded.slice(0, longestFileName)}-${hash('sha256', name).slice(0, 16)}.json`
}
