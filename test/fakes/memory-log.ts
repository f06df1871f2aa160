import type { Log, LogEntry, LogFields, LogLevel } from '../../src/base/log.ts'

/** Keeps entries for a test to look at. */
export class MemoryLog implements Log {
  readonly entries: LogEntry[] = []

  #add(level: LogLevel, message: string, fields: LogFields = {}): void {
    this.entries.push({ level, message, fields, source: '' })
  }
  error(message: string, fields?: LogFields): void {
    this.#add('error', message, fields)
  }
  warning(message: string, fields?: LogFields): void {
    this.#add('warning', message, fields)
  }
  info(message: string, fields?: LogFields): void {
    this.#add('info', message, fields)
  }
  verbose(message: string, fields?: LogFields): void {
    this.#add('verbose', message, fields)
  }
  isVerbose(): boolean {
    return true
  }
  from(): Log {
    return this
  }
}
