// The files that clients of the OpenAI API uploaded for batches, and what each batch was asked, in a folder of this machine (`batches` in
// `--state-dir`). The answers are those of the batch's job.

import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Clock } from '../base/clock.ts'
import { replaceFile } from '../base/replace-file.ts'
import { ServerError } from '../base/server-error.ts'
import { oldestToForget } from './oldest-to-forget.ts'

const mostBatchFiles = 1000
const mostBatchRecords = 1000
/** Of all files together. */
const mostBatchFileBytes = 4 * 1024 * 1024 * 1024
const longestFileAgeMs = 30 * 24 * 3600_000

/** The owner where the server asks nobody who calls. */
const nobody = '/'

/** A file, or a batch, as it is kept. `owner` is who may see it. */
export type BatchFile = {
  readonly id: string
  readonly owner: string
  readonly name: string
  readonly purpose: string
  readonly bytes: number
  readonly createdMs: number
}
export type BatchRecord = {
  readonly id: string
  readonly owner: string
  readonly inputFile: string
  readonly endpoint: string
  readonly window: string
  readonly metadata: Readonly<Record<string, string>> | null
  readonly total: number
  readonly createdMs: number
}

export class BatchFiles {
  readonly #clock: Clock
  readonly #folder: string
  readonly #mostFiles: number
  readonly #mostBatches: number
  readonly #files = new Map<string, BatchFile>()
  readonly #batches = new Map<string, BatchRecord>()

  constructor(clock: Clock, stateDirectory: string, mostFiles = mostBatchFiles, mostBatches = mostBatchRecords) {
    this.#mostBatches = mostBatches
    this.#clock = clock
    this.#mostFiles = mostFiles
    this.#folder = path.join(stateDirectory, 'batches')
  }

  async restore(): Promise<void> {
    const names = await readdir(this.#folder).catch(() => [])
    for (const name of names.filter((one) => /^(?:file-|batch_)\w+\.json$/.test(one)).sort()) {
      const record = await readRecord(path.join(this.#folder, name))
      if (record === null) continue
      if (name.startsWith('file-')) this.#files.set(record.id, record)
      else this.#batches.set(record.id, record)
    }
    // A server that was ended in the middle of an upload leaves bytes that nobody knows.
    const lost = names.filter((one) => /^file-\w+\.jsonl$/.test(one) && !this.#files.has(path.basename(one, '.jsonl')))
    for (const name of lost) await rm(path.join(this.#folder, name), { force: true })
  }

  async add(owner: string, name: string, purpose: string, bytes: Buffer): Promise<BatchFile> {
    await this.#dropOld()
    const kept = [...this.#files.values()].reduce((sum, file) => sum + file.bytes, 0)
    if (this.#files.size >= this.#mostFiles || kept + bytes.length > mostBatchFileBytes) {
      const text = `the server keeps at most ${this.#mostFiles} files of ${mostBatchFileBytes} bytes together, and has ${this.#files.size} of ${kept}: delete some` // prettier-ignore
      throw ServerError.withoutStack('UNAVAILABLE', text)
    }
    const own = this.files(owner).length
    if (owner !== nobody && own >= this.#mostFiles / 2) throw ServerError.withoutStack('UNAVAILABLE', `you keep ${own} files, which is half of what the server keeps for all callers: delete some`) // prettier-ignore
    const id = `file-${randomBytes(12).toString('hex')}`
    const file: BatchFile = { id, owner, name: name.slice(0, 255), purpose, bytes: bytes.length, createdMs: this.#clock.wallMs() } // prettier-ignore
    // Others that come while the bytes are written find the room taken.
    this.#files.set(id, file)
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await writeFile(this.pathOf(id), bytes, { mode: 0o600 })
      await this.#save(id, file)
    } catch (reason) {
      await this.remove(id)
      throw ServerError.from(reason, `the file cannot be kept in '${this.#folder}': `)
    }
    return file
  }

  /** A batch that is over makes room for a new one. Throws UNAVAILABLE where none is over. */
  async makeRoomForBatch(isOver: (id: string) => boolean): Promise<void> {
    await this.#dropOld()
    while (this.#batches.size >= this.#mostBatches) {
      const old = oldestToForget([...this.#batches.values()], ({ owner }) => owner, ({ id }) => isOver(id)) // prettier-ignore
      if (old === undefined) throw ServerError.withoutStack('UNAVAILABLE', `${this.#mostBatches} batches are under way, which is the most: cancel one, or wait for its end`) // prettier-ignore
      await this.#dropBatch(old.id)
    }
  }

  async addBatch(batch: BatchRecord): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    await this.#save(batch.id, batch)
    this.#batches.set(batch.id, batch)
  }

  async remove(id: string): Promise<void> {
    this.#files.delete(id)
    for (const file of [this.pathOf(id), path.join(this.#folder, `${id}.json`)]) await rm(file, { force: true })
  }

  /** Newest first. */
  files(owner: string): BatchFile[] {
    return [...this.#files.values()].filter((file) => file.owner === owner).toReversed()
  }

  batches(owner: string): BatchRecord[] {
    return [...this.#batches.values()].filter((batch) => batch.owner === owner).toReversed()
  }

  /** Throws NOT_FOUND, also for what belongs to somebody else. */
  file(id: string, owner: string): BatchFile {
    return ofOwner(this.#files.get(id), owner, `there is no file '${id.slice(0, 60)}'`)
  }

  batch(id: string, owner: string): BatchRecord {
    return ofOwner(this.#batches.get(id), owner, `there is no batch '${id.slice(0, 60)}'`)
  }

  pathOf(id: string): string {
    return path.join(this.#folder, `${id}.jsonl`)
  }

  #save(id: string, record: BatchFile | BatchRecord): Promise<void> {
    return replaceFile(path.join(this.#folder, `${id}.json`), JSON.stringify(record))
  }

  async #dropOld(): Promise<void> {
    const oldest = this.#clock.wallMs() - longestFileAgeMs
    for (const { id, createdMs } of this.#files.values()) if (createdMs < oldest) await this.remove(id)
    for (const { id, createdMs } of this.#batches.values()) {
      if (createdMs < oldest) await this.#dropBatch(id)
    }
  }

  async #dropBatch(id: string): Promise<void> {
    this.#batches.delete(id)
    await rm(path.join(this.#folder, `${id}.json`), { force: true })
  }
}

/** Null: the file was not written by this program. */
async function readRecord(file: string): Promise<(BatchFile & BatchRecord) | null> {
  try {
    const record = JSON.parse(await readFile(file, 'utf8')) as (BatchFile & BatchRecord) | null
    return record !== null && `${record.id}.json` === path.basename(file) ? record : null
  } catch {
    return null
  }
}

function ofOwner<T extends { readonly owner: string }>(found: T | undefined, owner: string, text: string): T {
  if (found?.owner === owner) return found
  throw ServerError.withoutStack('NOT_FOUND', text)
}
