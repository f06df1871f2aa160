// Who loaded and unloaded what, when, and what became of it: the last changes of each model in memory, and all of them in
// a file where the operator wants one (`--audit-log`).

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import {
  auditJson,
  auditLine,
  parseAuditLine,
  type AuditEntry,
  type AuditJson,
  type AuditedVersion,
} from './audit-entry.ts'
import { AuditFile, lastLines } from './audit-file.ts'

const keptPerModel = 50
/** Clients may name any number of models that do not exist: the model with the oldest change is forgotten. */
const keptModels = 2000
/** How much of the file is read at start, so that history goes on after a restart. */
const tailBytes = 1024 * 1024
/** A line waits this long for the hash of large files. Then it is written without the hash. */
const hashPatienceNs = 10e9

export type AuditDraft = Omit<AuditEntry, 'versions'> & {
  readonly versions: readonly string[]
  /** The hash of one of the versions; null when it cannot be computed. */
  readonly contentHash: (version: string) => Promise<string | null>
}

export class AuditLog {
  readonly #clock: Clock
  readonly #file: AuditFile | null
  readonly #byModel = new Map<string, AuditJson[]>()
  /** Lines are written in the order of the changes, whatever each of them waits for. */
  #written: Promise<void> = Promise.resolve()

  constructor(clock: Clock, file: AuditFile | null = null) {
    this.#clock = clock
    this.#file = file
  }

  /** '' keeps the log in memory only. Throws when the file cannot be opened. */
  static async open(dependencies: { readonly clock: Clock; readonly log: Log }, path: string): Promise<AuditLog> {
    if (path === '') return new AuditLog(dependencies.clock)
    const log = new AuditLog(dependencies.clock, await AuditFile.open(path, dependencies.log))
    for (const line of await lastLines(path, tailBytes)) {
      const entry = parseAuditLine(line)
      if (entry !== null) log.#keep(entry)
    }
    return log
  }

  /** Null without a file. */
  get lostLines(): number | null {
    return this.#file?.lostLines ?? null
  }

  /** Never throws and never waits. The model's history has the entry at once, the file when the hashes are known. */
  record(draft: AuditDraft): void {
    const { versions, contentHash, ...rest } = draft
    const list = this.#keep(auditJson({ ...rest, versions: versions.map((version) => ({ version, contentHash: '' })) }))
    const early = list.at(-1)
    const hashes = this.#patiently(Promise.all(versions.map((version) => contentHash(version).catch(() => null))))
    this.#written = this.#written.then(async () => {
      const known = await hashes
      const hashed: AuditedVersion[] = versions.map((version, index) => ({
        version,
        contentHash: known?.[index] ?? '',
      }))
      const json = auditJson({ ...rest, versions: hashed })
      const at = list.findIndex((entry) => entry === early)
      if (at >= 0) list[at] = json
      this.#file?.write(auditLine(json))
    })
  }

  /** The last changes of a model, newest first. */
  history(model: string, limit: number): readonly AuditJson[] {
    return (this.#byModel.get(model) ?? []).toReversed().slice(0, limit)
  }

  /** After the file was renamed. */
  reopen(): void {
    this.#file?.reopen()
  }

  /** Resolves when everything recorded so far was handed to the file. */
  async settled(): Promise<void> {
    await this.#written
  }

  async close(): Promise<void> {
    await this.#written
    await this.#file?.close()
  }

  #keep(entry: AuditJson): AuditJson[] {
    const list = this.#byModel.get(entry.model) ?? []
    // The model with the newest change is the last of the map.
    this.#byModel.delete(entry.model)
    this.#byModel.set(entry.model, list)
    list.push(entry)
    if (list.length > keptPerModel) list.shift()
    if (this.#byModel.size > keptModels) this.#byModel.delete(this.#byModel.keys().next().value as string)
    return list
  }

  /** Null when the hash takes too long. */
  async #patiently<T>(work: Promise<T>): Promise<T | null> {
    let cancel = (): void => undefined
    const late = new Promise<null>((resolve) => {
      cancel = this.#clock.after(hashPatienceNs, () => resolve(null))
    })
    try {
      return await Promise.race([work, late])
    } finally {
      cancel()
    }
  }
}
