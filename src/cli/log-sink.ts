// One place that log text goes to: a file descriptor that is written behind the main thread's back.

import { close, closeSync, fstatSync, fsync, openSync, stat, write, writeSync } from 'node:fs'
import { promisify } from 'node:util'
import { Drain } from '../base/drain.ts'

/** What waits to be written is bounded: beyond this, lines are counted and dropped rather than kept. */
const maxPendingChars = 4 * 1024 * 1024
const retryMs = 10
/** How often a file is looked for under its name, while it is written to. */
const lookEveryMs = 1000

type LogSinkOptions = {
  /** The line that stands for lines that are missing. */
  readonly droppedLine?: (count: number) => string
}

/**
 * A stalled reader (a paused terminal, a full pipe) must not stall the server, and process.stdout writes to pipes
 * synchronously; so text is collected and handed to the thread pool, one write at a time. A reader that went away
 * (EPIPE) ends the sink quietly: serving models does not depend on anybody reading the log.
 *
 * A file that was renamed or removed, as tools that rotate logs do, is opened anew under its name: on `reopen`, and by
 * itself within a second of writing.
 */
export class LogSink {
  #fd: number
  /** '' for a descriptor that is not ours. */
  readonly #path: string
  readonly #droppedLine: (count: number) => string
  #pending: string[] = []
  #pendingChars = 0
  #droppedLines = 0
  #droppedCount = 0
  #isWriting = false
  #isBroken = false
  #isReopenDue = false
  #lookedAtMs = -Infinity
  readonly #writes = new Drain(() => !this.#isWriting)

  constructor(fd: number, options: LogSinkOptions = {}, path = '') {
    this.#fd = fd
    this.#path = path
    this.#droppedLine = options.droppedLine ?? droppedText
  }

  /** Throws when the file cannot be opened for appending. */
  static openFile(path: string, options: LogSinkOptions = {}): LogSink {
    return new LogSink(openSync(path, 'a'), options, path)
  }

  /** Lines that were dropped since the start. */
  get droppedCount(): number {
    return this.#droppedCount
  }

  write(text: string): void {
    if (this.#isBroken) return
    if (this.#pendingChars + text.length > maxPendingChars) {
      this.#droppedLines++
      this.#droppedCount++
      return
    }
    this.#pending.push(text)
    this.#pendingChars += text.length
    if (this.#isWriting) return
    this.#isWriting = true
    // Lines of one turn of the event loop leave in one write.
    setImmediate(() => this.#writeNext())
  }

  /** What was written before goes to the file as it is now; what comes later to the one that has its name then. */
  reopen(): void {
    this.#isReopenDue = this.#path !== ''
    if (this.#isWriting || !this.#isReopenDue) return
    this.#isWriting = true
    this.#writeNext()
  }

  /** Resolves when everything written so far has left. */
  flush(): Promise<void> {
    return this.#writes.idle()
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
    if (this.#path === '') return
    this.#isBroken = true
    await promisify(fsync)(this.#fd).catch(() => undefined)
    await promisify(close)(this.#fd)
  }

  #takePending(): string {
    if (this.#droppedLines > 0) {
      this.#pending.push(this.#droppedLine(this.#droppedLines))
      this.#droppedLines = 0
    }
    const text = this.#pending.join('')
    this.#pending = []
    this.#pendingChars = 0
    return text
  }

  #writeNext(): void {
    if (this.#isReopenDue) {
      this.#isReopenDue = false
      this.#openAnew()
    }
    const text = this.#isBroken ? '' : this.#takePending()
    if (text === '') {
      this.#isWriting = false
      this.#writes.check()
      return
    }
    this.#lookForFile(() => this.#writeBytes(Buffer.from(text), 0))
  }

  /** Never between two parts of one write. A file that cannot be opened leaves the one that is open. */
  #openAnew(): void {
    try {
      const next = openSync(this.#path, 'a')
      closeSync(this.#fd)
      this.#fd = next
    } catch {
      // Its folder may be gone for the moment; the log goes on where it was.
    }
  }

  #lookForFile(then: () => void): void {
    const nowMs = performance.now()
    if (this.#path === '' || nowMs - this.#lookedAtMs < lookEveryMs) {
      then()
      return
    }
    this.#lookedAtMs = nowMs
    stat(this.#path, (error, found) => {
      if (this.#isBroken) {
        this.#writeNext()
        return
      }
      const open = fstatSync(this.#fd)
      if (error !== null || found.ino !== open.ino || found.dev !== open.dev) this.#openAnew()
      then()
    })
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

const droppedText = (count: number): string => `${count} log lines were dropped: the reader of this log was too slow\n`
