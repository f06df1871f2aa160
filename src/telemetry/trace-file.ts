// Triton's trace files: arrays of JSON records. One file that grows until the end, or numbered ones that are whole at once.

import { createWriteStream, type WriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import { Turnstile } from '../base/turnstile.ts'

/** Clients say how many requests a numbered file has, and one file for each request would fill any disk's table of files. */
const mostTraceFiles = 10_000
/** What the disk has not taken yet. What comes on top is left out. */
const mostUnwrittenBytes = 64 * 1024 * 1024
const slowDisk = 'the disk does not take traces as fast as they come'
/** Each takes a descriptor. */
const filesAtOnce = 8

export class TraceFile {
  readonly path: string
  readonly #log: Log
  #stream: WriteStream | null = null
  #hasRecords = false
  #hasFailed = false
  #hasLeftOut = false
  #isClosed = false
  #index = 0
  /** Characters of numbered files that are not written yet. */
  #unwrittenChars = 0
  readonly #writes = new Set<Promise<void>>()
  readonly #turnstile = new Turnstile(filesAtOnce)

  constructor(log: Log, path: string) {
    this.#log = log.from('trace-file.ts')
    this.path = path
  }

  /** Records are JSON texts without the comma between them. The file is made with the first of them. */
  append(records: readonly string[]): void {
    if (records.length === 0 || this.#hasFailed || this.#isClosed) return
    if (this.#stream === null) {
      this.#stream = createWriteStream(this.path)
      this.#stream.on('error', (reason) => this.#onError(this.path, reason))
    }
    if (this.#stream.writableLength > mostUnwrittenBytes) {
      this.#leaveOut(slowDisk)
      return
    }
    this.#stream.write(`${this.#hasRecords ? ',' : '['}${records.join(',')}`)
    this.#hasRecords = true
  }

  /** Into `<path>.0`, `<path>.1`… */
  appendNumbered(records: readonly string[]): void {
    if (records.length === 0 || this.#isClosed) return
    if (this.#index >= mostTraceFiles) {
      this.#leaveOut(`there are ${mostTraceFiles} files of traces, the maximum: use a larger log_frequency`)
      return
    }
    if (this.#unwrittenChars > mostUnwrittenBytes) {
      this.#leaveOut(slowDisk)
      return
    }
    const path = `${this.path}.${this.#index++}`
    const text = `[${records.join(',')}]`
    this.#unwrittenChars += text.length
    const write = this.#turnstile
      .pass(() => writeFile(path, text))
      .catch((reason: unknown) => this.#onError(path, reason))
      .finally(() => {
        this.#writes.delete(write)
        this.#unwrittenChars -= text.length
      })
    this.#writes.add(write)
  }

  /** Records that come later are dropped. */
  async close(): Promise<void> {
    this.#isClosed = true
    const stream = this.#stream
    this.#stream = null
    const isEnded = new Promise<void>((resolve) => {
      if (stream === null || stream.destroyed) resolve()
      else {
        stream.on('close', resolve)
        stream.end(']')
      }
    })
    await Promise.all([isEnded, ...this.#writes])
  }

  #leaveOut(why: string): void {
    if (!this.#hasLeftOut) this.#log.warning(`traces are left out: ${why}`, { file: this.path })
    this.#hasLeftOut = true
  }

  /** A failure of tracing must not hurt serving: the log tells of it once. */
  #onError(path: string, reason: unknown): void {
    if (!this.#hasFailed) this.#log.error('trace cannot be written', { file: path, reason: messageOf(reason) })
    this.#hasFailed = true
  }
}
