// Rollouts in a folder of this machine (`--state-dir`): one file each, replaced in one step, so that a process that is killed in
// the middle of a write leaves the old file or the new one. The folder is made with the first write.

import { mkdir, open, readdir, readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import { isRunning } from '../base/is-running.ts'
import type { Log } from '../base/log.ts'
import { replaceFile } from '../base/replace-file.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { keptFolders } from './has-kept-releases.ts'
import type { ModelPins, ReleaseRecord } from './release-record.ts'
import type { KeptReleases, ReleaseStore } from './release-store.ts'

/** A file above this size was not written by this program. */
const largestFileBytes = 16 * 1024 * 1024

export class FileReleaseStore implements ReleaseStore {
  readonly #folder: string
  readonly #log: Log
  /** Writes of one file follow each other; of those that wait only the last one is done. */
  readonly #writes = new Map<string, Promise<void>>()
  #hasLock = false
  #locking: Promise<void> | null = null

  constructor(log: Log, folder: string) {
    this.#log = log.from('file-release-store.ts')
    this.#folder = folder
  }

  async read(): Promise<KeptReleases> {
    const records = await this.#readAll<ReleaseRecord>('rollouts', ({ name, plan, state }) => isText(name) && isThere(plan) && isThere(state)) // prettier-ignore
    const pins = await this.#readAll<ModelPins>('models', ({ model, held }) => isText(model) && Array.isArray(held))
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
    if (this.#hasLock) await rm(this.#lockFile, { force: true })
  }

  get #lockFile(): string {
    return path.join(this.#folder, 'server.pid')
  }

  async #readAll<T>(kind: string, isWhole: (value: Partial<T>) => boolean): Promise<T[]> {
    const folder = path.join(this.#folder, kind)
    const names = await readdir(folder).catch(() => [])
    const found: T[] = []
    for (const name of names) {
      if (!name.endsWith('.json')) continue
      const file = path.join(folder, name)
      try {
        const text = await readFile(file, 'utf8')
        const value = text.length > largestFileBytes ? null : (JSON.parse(text) as Partial<T> | null)
        if (typeof value !== 'object' || value === null || !isWhole(value)) throw new Error('it is no such record')
        found.push(value as T)
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
    this.#locking ??= this.#lock()
    await this.#locking.catch((reason: unknown) => {
      this.#locking = null
      throw reason
    })
    await replaceFile(file, text)
  }

  /** Two servers with one folder would overwrite each other's rollouts. */
  async #lock(): Promise<void> {
    try {
      for (const kind of keptFolders) await mkdir(path.join(this.#folder, kind), { recursive: true, mode: 0o700 })
    } catch (reason) {
      throw new ServerError('UNAVAILABLE', `the state folder '${this.#folder}' cannot be made: ${messageOf(reason)}; give another one with --state-dir`) // prettier-ignore
    }
    const owner = Number(await readFile(this.#lockFile, 'utf8').catch(() => '0'))
    if (owner > 0 && owner !== process.pid && isRunning(owner)) {
      throw new ServerError('UNAVAILABLE', `the state folder '${this.#folder}' belongs to the server with the process id ${owner}; give this server another one with --state-dir or another --id`) // prettier-ignore
    }
    const handle = await open(this.#lockFile, 'w', 0o600)
    await handle.writeFile(String(process.pid))
    await handle.close()
    this.#hasLock = true
  }
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isThere = (value: unknown): boolean => typeof value === 'object' && value !== null

/** Names of models may have any character; a file's name may not. */
const fileName = (name: string): string => `${encodeURIComponent(name).replaceAll('.', '%2E').slice(0, 200)}.json`
