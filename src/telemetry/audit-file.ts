// The audit log's file: lines are appended in order, each batch is on the disk before the next one, and no failure of the
// disk stops the server.

import { open, type FileHandle } from 'node:fs/promises'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'

/** The most characters that wait for a slow disk. Further lines are dropped and counted. */
const maxPendingLines = 10_000

/** Only the owner may read the file: it says who did what. */
const mode = 0o600

export class AuditFile {
  readonly #path: string
  readonly #log: Log
  #file: FileHandle | null
  #pending: string[] = []
  #writing: Promise<void> | null = null
  #mustReopen = false
  #isFailing = false
  #lostLines = 0

  /** Throws when the file cannot be opened: whoever asks for an audit log wants to know that there is none. */
  static async open(path: string, log: Log): Promise<AuditFile> {
    try {
      return new AuditFile(path, log, await open(path, 'a', mode))
    } catch (reason) {
      throw new ServerError('INVALID_ARG', `failed to open audit log '${path}': ${messageOf(reason)}`)
    }
  }

  private constructor(path: string, log: Log, file: FileHandle) {
    this.#path = path
    this.#log = log.from('audit-file.ts')
    this.#file = file
  }

  /** Lines that could not be written. */
  get lostLines(): number {
    return this.#lostLines
  }

  /** Never throws and never waits. */
  write(line: string): void {
    if (this.#pending.length >= maxPendingLines) this.#lose(1, 'the disk is too slow')
    else this.#pending.push(line)
    this.#start()
  }

  /** The file was renamed: a new file of the old name takes the lines from now on. */
  reopen(): void {
    this.#mustReopen = true
    this.#start()
  }

  async close(): Promise<void> {
    await this.#writing
    await this.#file?.close().catch(() => undefined)
    this.#file = null
  }

  #start(): void {
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = null
    })
  }

  async #writeAll(): Promise<void> {
    // Lines of one turn of the event loop leave in one write.
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#pending.length > 0 || this.#mustReopen) {
      const lines = this.#pending
      this.#pending = []
      try {
        const file = await this.#current()
        if (lines.length === 0) continue
        await file.appendFile(lines.join(''))
        await file.datasync()
        if (this.#isFailing) this.#log.info('the audit log is written again', { file: this.#path })
        this.#isFailing = false
      } catch (reason) {
        this.#lose(lines.length, messageOf(reason))
        await this.#giveUpFile()
      }
    }
  }

  async #current(): Promise<FileHandle> {
    if (this.#mustReopen) {
      this.#mustReopen = false
      await this.#giveUpFile()
    }
    this.#file ??= await open(this.#path, 'a', mode)
    return this.#file
  }

  async #giveUpFile(): Promise<void> {
    const file = this.#file
    this.#file = null
    await file?.close().catch(() => undefined)
  }

  #lose(lines: number, reason: string): void {
    this.#lostLines += lines
    if (this.#isFailing) return
    this.#isFailing = true
    this.#log.error('the audit log cannot be written; models serve on, changes are not on record', {
      file: this.#path,
      reason,
    })
  }
}

/** The last whole lines of a file, up to `limitBytes` of them; none when it cannot be read. */
export async function lastLines(path: string, limitBytes: number): Promise<string[]> {
  let file: FileHandle | null = null
  try {
    file = await open(path, 'r')
    const { size } = await file.stat()
    const start = Math.max(0, size - limitBytes)
    const bytes = Buffer.alloc(size - start)
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start)
    const lines = bytes.toString('utf8', 0, bytesRead).split('\n')
    // The first line is cut off where the file is longer. The last line is empty or not yet complete.
    return lines.slice(start === 0 ? 0 : 1, -1)
  } catch {
    return []
  } finally {
    await file?.close().catch(() => undefined)
  }
}
