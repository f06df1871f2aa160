// A file or descriptor for log text. The thread pool writes it, so the main thread never waits.

import { close, closeSync, fstatSync, fsync, openSync, stat, write, writeSync } from 'node:fs'
import { promisify } from 'node:util'
import { Drain } from '../base/drain.ts'

/** The most text that waits to be written. Further lines are counted and dropped. */
const maxPendingChars = 4 * 1024 * 1024
const retryMs = 10
/** How often the sink checks that the file still has its name, while it writes. */
const lookEveryMs = 1000

type LogSinkOptions = {
  /** The line in place of dropped lines. */
  readonly droppedLine?: (count: number) => string
}

/**
 * A stalled reader (a paused terminal, a full pipe) must not stall the server, and process.stdout writes to pipes
 * synchronously. So the sink collects text and hands it to the thread pool, one write at a time. When the reader is
 * gone (EPIPE), the sink ends without an error: the server works without a reader of its log. While the disk is full, lines are
 * counted and dropped, and each further line is another attempt.
 *
 * When a tool that rotates logs has renamed or removed the file, the sink opens a new file of the same name: on
 * `reopen`, and by itself within a second of writing.
 */
export class LogSink {
  #fd: number
  /** '' for a descriptor that the sink did not open. */
  readonly #path: string
  readonly #droppedLine: (count: number) => string
  #pending: string[] = []
  #pendingChars = 0
  /** Dropped since the last line in place of dropped ones. */
  #droppedLines = 0
  #droppedCount = 0
  /** What the line in place of dropped ones says that is being written; 0: there is none. */
  #toldLines = 0
  /** The last line was cut off by a disk that was full. */
  #isTorn = false
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
      this.#drop(1)
      return
    }
    this.#pending.push(text)
    this.#pendingChars += text.length
    if (this.#isWriting) return
    this.#isWriting = true
    // Lines of one turn of the event loop leave in one write.
    setImmediate(() => this.#writeNext())
  }

  /** Earlier text goes to the open file, later text to the file that then has its name. */
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

  /** For the end of the process: writes the rest at once and does not wait for the reader. */
  flushNow(): void {
    const bytes = Buffer.from(this.#takePending())
    if (this.#isBroken || bytes.length === 0) return
    try {
      for (let offset = 0; offset < bytes.length;) offset += writeSync(this.#fd, bytes, offset)
    } catch {
      // There is no place left to report the error.
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
    this.#toldLines = this.#droppedLines
    if (this.#droppedLines > 0) this.#pending.push(this.#droppedLine(this.#droppedLines))
    this.#droppedLines = 0
    const text = this.#pending.join('')
    this.#pending = []
    this.#pendingChars = 0
    return text
  }

  #drop(lines: number): void {
    this.#droppedLines += lines
    this.#droppedCount += lines
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
    const whole = this.#isTorn ? `\n${text}` : text
    this.#lookForFile(() => this.#writeBytes(Buffer.from(whole), 0))
  }

  /** Never called between two parts of one write. When the file cannot be opened, the open file stays. */
  #openAnew(): void {
    try {
      const next = openSync(this.#path, 'a')
      closeSync(this.#fd)
      this.#fd = next
    } catch {
      // The folder may be missing for a moment; the log goes on in the open file.
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
        if (goneReader.has(error.code ?? '')) {
          this.#isBroken = true
          this.#pending = []
          this.#writeNext()
        } else this.#lose(bytes, offset)
        return
      }
      this.#isTorn = false
      if (offset + written < bytes.length) this.#writeBytes(bytes, offset + written)
      else this.#writeNext()
    })
  }

  /** The bytes from `offset` on found no room, and what waits finds none either. */
  #lose(bytes: Buffer, offset: number): void {
    if (offset > 0) this.#isTorn = bytes[offset - 1] !== lineEnd
    // Neither the line in place of others nor the end of a torn line is a line of the log.
    const notLines = (this.#toldLines > 0 ? 1 : 0) + (this.#isTorn && offset === 0 ? 1 : 0)
    this.#droppedLines += this.#toldLines
    this.#drop(linesIn(bytes.subarray(offset)) - notLines + linesIn(Buffer.from(this.#pending.join(''))))
    this.#pending = []
    this.#pendingChars = 0
    this.#isWriting = false
    this.#writes.check()
  }
}

/** Nobody will read this descriptor again. */
const goneReader: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET', 'EBADF'])
const lineEnd = 10

function linesIn(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(lineEnd); at >= 0; at = bytes.indexOf(lineEnd, at + 1)) count++
  return count
}

const droppedText = (count: number): string =>
  `${count} log lines were dropped: the disk was full, or the reader of this log too slow\n`
