// Jobs in a folder of this machine (`jobs` in `--state-dir`): one file each, beside the lines and the answers that the server keeps.

import { copyFile, link, readdir, readFile, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import type { Log } from '../base/log.ts'
import { FolderOwner } from '../base/folder-owner.ts'
import { isDraft, replaceFile } from '../base/replace-file.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { JobKeeper } from './job-control.ts'
import type { JobRecord } from './job-record.ts'

/** A file above this size was not written by this program. */
const largestRecordBytes = 1024 * 1024
/** The answers that the server keeps for one job, and for all of them together. */
const mostKeptOutputBytes = 1024 * 1024 * 1024
const mostKeptTogetherBytes = 16 * mostKeptOutputBytes
const outputEnd = '.output.jsonl'

export class JobStore implements JobKeeper {
  readonly #folder: string
  readonly #owner: FolderOwner
  readonly #log: Log
  #write: Promise<void> = Promise.resolve()

  constructor(log: Log, stateDirectory: string) {
    this.#log = log.from('job-store.ts')
    this.#folder = path.join(stateDirectory, 'jobs')
    this.#owner = new FolderOwner(stateDirectory)
  }

  /** Throws UNAVAILABLE when another server has these jobs: both would run them. */
  async read(): Promise<JobRecord[]> {
    const names = await readdir(this.#folder).catch(() => [])
    if (names.length > 0) await this.#owner.take([path.basename(this.#folder)])
    await this.#removeLost(names)
    const found: JobRecord[] = []
    for (const name of names.filter((one) => one.endsWith('.json'))) {
      const file = path.join(this.#folder, name)
      try {
        const text = await readFile(file, 'utf8')
        const record = text.length > largestRecordBytes ? null : (JSON.parse(text) as JobRecord | null)
        if (typeof record?.id !== 'string' || `${record.id}.json` !== name || typeof record.plan !== 'object') throw new Error('it is no job') // prettier-ignore
        found.push(record)
      } catch (reason) {
        this.#log.error(`'${file}' cannot be read and is left out: ${messageOf(reason)}`)
      }
    }
    return found.sort((one, other) => one.createdMs - other.createdMs)
  }

  close(): Promise<void> {
    return this.#owner.leave()
  }

  /** What a server that was killed left behind: lines of a job that was never kept, answers of one that was being removed, halves of files. */
  async #removeLost(names: readonly string[]): Promise<void> {
    const kept = new Set(names)
    for (const name of names) {
      const [, id] = /^(.+?)\.(?:input\.jsonl|output\.jsonl|upload)$/.exec(name) ?? []
      if (id === undefined ? !isDraft(name) : kept.has(`${id}.json`)) continue
      await rm(path.join(this.#folder, name), { recursive: true, force: true })
    }
  }

  /** A process that is killed in the middle of a write leaves the old file or the new one. */
  save(record: JobRecord): Promise<void> {
    const text = JSON.stringify(record)
    const file = path.join(this.#folder, `${record.id}.json`)
    this.#write = this.#write.catch(() => undefined).then(() => this.#replace(file, text))
    return this.#write
  }

  async saveLines(id: string, lines: readonly string[] | string): Promise<void> {
    const kept = this.inputFile(id)
    if (typeof lines !== 'string') {
      await this.#replace(kept, lines.map((line) => `${line.replaceAll(/[\r\n]+/g, ' ')}\n`).join(''))
      return
    }
    // A thousand batches of one file take the room of one file on the disk.
    await this.#inFolder(() => link(lines, kept).catch(() => copyFile(lines, kept)))
  }

  inputFile(id: string): string {
    return path.join(this.#folder, `${id}.input.jsonl`)
  }

  outputFile(id: string): string {
    return path.join(this.#folder, `${id}${outputEnd}`)
  }

  /** How many bytes of answers the job may leave here. Looked up when a job begins: jobs that run at the same time may go beyond the sum. Throws UNAVAILABLE. */
  async roomForAnswers(id: string): Promise<number> {
    const own = path.basename(this.outputFile(id))
    let others = 0
    for (const name of await readdir(this.#folder).catch(() => [])) {
      if (!name.endsWith(outputEnd) || name === own) continue
      others += await stat(path.join(this.#folder, name)).then(({ size }) => size, () => 0) // prettier-ignore
    }
    if (others < mostKeptTogetherBytes) return Math.min(mostKeptOutputBytes, mostKeptTogetherBytes - others)
    const text = `the answers of other jobs have ${others} bytes, and the server keeps at most ${mostKeptTogetherBytes}: delete jobs that are over, or name a file or a queue as output`
    throw new ServerError('UNAVAILABLE', text)
  }

  /** Answers that wait to be sent to a cloud. */
  uploadFolder(id: string): string {
    return path.join(this.#folder, `${id}.upload`)
  }

  async remove(id: string): Promise<void> {
    await rm(this.uploadFolder(id), { recursive: true, force: true })
    for (const file of [this.inputFile(id), this.outputFile(id), path.join(this.#folder, `${id}.json`)]) await rm(file, { force: true }) // prettier-ignore
  }

  #replace(file: string, text: string): Promise<void> {
    return this.#inFolder(() => replaceFile(file, text))
  }

  async #inFolder(write: () => Promise<void>): Promise<void> {
    try {
      await this.#owner.take([path.basename(this.#folder)])
      await write()
    } catch (reason) {
      throw ServerError.from(reason, `the job cannot be kept in '${this.#folder}' (--state-dir): `)
    }
  }
}
