import type { AccessEntry, AccessLog } from '../base/access-log.ts'
import { encodeAccessLine } from './access-line.ts'
import { LogSink } from './log-sink.ts'

/** `--access-log`. The thread pool writes all lines of one turn of the event loop in one write. */
export class AccessLogWriter implements AccessLog {
  readonly #sink: LogSink

  private constructor(sink: LogSink) {
    this.#sink = sink
  }

  /** '-' is stdout. Throws when the file cannot be opened for appending. */
  static open(path: string): AccessLogWriter {
    const droppedLine = (count: number): string => `{"time":"${new Date().toISOString()}","dropped":${count}}\n`
    return new AccessLogWriter(path === '-' ? new LogSink(1, { droppedLine }) : LogSink.openFile(path, { droppedLine }))
  }

  get droppedCount(): number {
    return this.#sink.droppedCount
  }

  write(entry: AccessEntry): void {
    this.#sink.write(encodeAccessLine(entry, Date.now()))
  }

  /** Call it after the file was renamed: later lines go to a new file. */
  reopen(): void {
    this.#sink.reopen()
  }

  flush(): Promise<void> {
    return this.#sink.flush()
  }

  flushNow(): void {
    this.#sink.flushNow()
  }
}
