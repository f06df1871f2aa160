// One place that log text goes to: a file descriptor that is written behind the main thread's back.

import { close, fsync, openSync, write, writeSync } from 'node:fs'
import { promisify } from 'node:util'

/** What waits to be written is bounded: beyond this, lines are counted and dropped rather than kept. */
const maxPendingChars = 4 * 1024 * 1024
const retryMs = 10

/**
 * A stalled reader (a paused terminal, a full pipe) must not stall the server, and process.stdout writes to pipes
 * synchronously; so text is collected and handed to the thread pool, one write at a time. A reader that went away
 * (EPIPE) ends the sink quietly: serving models does not depend on anybody reading the log.
 */
export class LogSink {
  readonly #fd: number
  readonly #isOwned: boolean
  #pending: string[] = []
  #pendingChars = 0
  #droppedLines = 0
  #isWriting = false
  #isBroken = false
  #idleWaiters: (() => void)[] = []

  constructor(fd: number, isOwned = false) {
    this.#fd = fd
    this.#isOwned = isOwned
  }

  /** Throws when the file cannot be opened for appending. */
  static openFile(path: string): LogSink {
    return new LogSink(openSync(path, 'a'), true)
  }

  write(text: string): void {
    if (this.#isBroken) return
    if (this.#pendingChars + text.length > maxPendingChars) {
      this.#droppedLines++
      return
    }
    this.#pending.push(text)
    this.#pendingChars += text.length
    if (this.#isWriting) return
    this.#isWriting = true
    // Lines of one turn of the event loop leave in one write.
    setImmediate(() => this.#writeNext())
  }

  /** Resolves when everything written so far has left. */
  async flush(): Promise<void> {
    if (!this.#isWriting) return
    await new Promise<void>((resolve) => this.#idleWaiters.push(resolve))
  }

  /** For the last moments of the process: writes what is left now, waiting for nobody. */
  flushNow(): void {
    const bytes = Buffer.from(this.#takePending())
    if (this.#isBroken || bytes.length === 0) return
    try {
      for (let offset = 0; offset < bytes.length;) offset += writeSync(this.#fd, bytes, offset)
    } catch {
      // Nobody is left to tell.
      this.#isBroken = true
    }
  }

  async close(): Promise<void> {
    await this.flush()
    if (!this.#isOwned) return
    this.#isBroken = true
    await promisify(fsync)(this.#fd).catch(() => undefined)
    await promisify(close)(this.#fd)
  }

  #takePending(): string {
    if (this.#droppedLines > 0) {
      this.#pending.push(`${this.#droppedLines} log lines were dropped: the reader of this log was too slow\n`)
      this.#droppedLines = 0
    }
    const text = this.#pending.join('')
    this.#pending = []
    this.#pendingChars = 0
    return text
  }

  #writeNext(): void {
    const text = this.#isBroken ? '' : this.#takePending()
    if (text === '') {
      this.#isWriting = false
      for (const resolve of this.#idleWaiters.splice(0)) resolve()
      return
    }
    this.#writeBytes(Buffer.from(text), 0)
  }

  #writeBytes(bytes: Buffer, offset: number): void {
    write(this.#fd, bytes, offset, (error, written) => {
      if (error !== null) {
        // A descriptor shared with a process that made it non-blocking says EAGAIN when the reader is slow.
        if (error.code === 'EAGAIN') {
          setTimeout(() => this.#writeBytes(bytes, offset), retryMs)
          return
        }
        this.#isBroken = true
        this.#pending = []
        this.#writeNext()
        return
      }
      if (offset + written < bytes.length) this.#writeBytes(bytes, offset + written)
      else this.#writeNext()
    })
  }
}
