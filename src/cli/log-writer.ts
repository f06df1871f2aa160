// The Log of a running server: decides by level, formats, and chooses where the line goes.

import { LogHistory } from '../base/log-history.ts'
import type { Log, LogFields, LogLevel } from '../base/log.ts'
import type { LogSettings } from '../options/server-options.ts'
import { encodeLogLine, linePrefix, type LineContext } from './log-line.ts'
import { LogSink } from './log-sink.ts'
import type { Terminal } from './terminal.ts'
import type { TextSink } from './text-sink.ts'

type LogWriterDependencies = {
  readonly stdout: TextSink
  readonly stderr: TextSink
  openFile(path: string): TextSink
  /** Wall-clock microseconds since 1970. */
  wallUs(): number
  readonly pid: number
  /** False when TRITON_SERVER_ESCAPE_LOG_MESSAGES=0. */
  readonly isEscaped: boolean
  /** Where lines go that a person reads at a terminal; null: programs read the lines. */
  readonly terminal: Terminal | null
}

/** The part that a log shares with all logs made by its `from`. */
class LogOutput {
  readonly dependencies: LogWriterDependencies
  settings: LogSettings
  file: TextSink | null
  readonly history = new LogHistory()

  constructor(dependencies: LogWriterDependencies, settings: LogSettings) {
    this.dependencies = dependencies
    this.settings = settings
    this.file = settings.file === '' ? null : dependencies.openFile(settings.file)
  }

  /** Null: the format is one for programs. */
  get terminal(): Terminal | null {
    return this.settings.format === 'default' && this.file === null ? this.dependencies.terminal : null
  }

  get context(): LineContext {
    const { pid, isEscaped } = this.dependencies
    return { format: this.settings.format, wallUs: this.dependencies.wallUs(), pid, isEscaped }
  }

  sinkOf(level: LogLevel): TextSink {
    if (this.file !== null) return this.file
    if (this.dependencies.terminal !== null) return this.dependencies.terminal
    return level === 'error' || level === 'warning' ? this.dependencies.stderr : this.dependencies.stdout
  }
}

export class LogWriter implements Log {
  readonly #output: LogOutput
  readonly #source: string

  private constructor(output: LogOutput, source: string) {
    this.#output = output
    this.#source = source
  }

  /** Throws when the log file cannot be opened. */
  static create(dependencies: LogWriterDependencies, settings: LogSettings): LogWriter {
    return new LogWriter(new LogOutput(dependencies, settings), '')
  }

  get settings(): LogSettings {
    return this.#output.settings
  }

  /** The terminal of the person who started the server; null: there is none, or it does not show the log. */
  get terminal(): Terminal | null {
    return this.#output.terminal
  }

  /** The last lines that were written. */
  get history(): LogHistory {
    return this.#output.history
  }

  /** Changes levels or format from now on. The file stays what it was at start. */
  configure(changes: Partial<Omit<LogSettings, 'file'>>): void {
    this.#output.settings = { ...this.#output.settings, ...changes }
  }

  error(message: string, fields?: LogFields): void {
    if (this.#output.settings.isErrorOn) this.#write('error', message, fields)
  }

  warning(message: string, fields?: LogFields): void {
    if (this.#output.settings.isWarningOn) this.#write('warning', message, fields)
  }

  info(message: string, fields?: LogFields): void {
    if (this.#output.settings.isInfoOn) this.#write('info', message, fields)
  }

  verbose(message: string, fields?: LogFields): void {
    if (this.#output.settings.verboseLevel > 0) this.#write('verbose', message, fields)
  }

  isVerbose(level = 1): boolean {
    return this.#output.settings.verboseLevel >= level
  }

  from(source: string): LogWriter {
    return new LogWriter(this.#output, source)
  }

  /** Writes a table below one line with level, time and place. In JSON each row is an entry. */
  table(text: string, entries: readonly { message: string; fields: LogFields }[]): void {
    const output = this.#output
    if (!output.settings.isInfoOn) return
    if (output.settings.format === 'json') {
      for (const entry of entries) this.info(entry.message, entry.fields)
      return
    }
    output.sinkOf('info').write(`${linePrefix('info', this.#source, output.context)}\n${text}\n`)
  }

  /** A line without level, time or place, as Triton prints `Signal (15) received.`; in JSON a usual entry. */
  plain(line: string): void {
    if (this.#output.settings.format === 'json') this.info(line)
    else this.#output.sinkOf('info').write(`${line}\n`)
  }

  /** An error line without level, time or place, as Triton's last line; in JSON a usual entry. */
  errorLine(line: string): void {
    if (this.#output.settings.format === 'json') this.error(line)
    else this.#output.sinkOf('error').write(`${line}\n`)
  }

  /** The file was renamed: later lines go to a new file. */
  reopen(): void {
    this.#output.file?.reopen?.()
  }

  async flush(): Promise<void> {
    await Promise.all(this.#sinks().map((sink) => sink.flush()))
  }

  flushNow(): void {
    for (const sink of this.#sinks()) sink.flushNow()
  }

  #sinks(): TextSink[] {
    const { file, dependencies } = this.#output
    return [dependencies.stdout, dependencies.stderr, ...(file === null ? [] : [file])]
  }

  #write(level: LogLevel, message: string, fields: LogFields = {}): void {
    const entry = { level, message, fields, source: this.#source }
    const { context, terminal } = this.#output
    if (terminal === null) this.#output.sinkOf(level).write(encodeLogLine(entry, context))
    else terminal.writeEntry(entry, context.wallUs)
    this.#output.history.add(entry, context.wallUs / 1000)
  }
}

/** The log of this process. Throws when the log file cannot be opened. */
export function createProcessLog(
  settings: LogSettings,
  createTerminal: ((sink: TextSink) => Terminal) | null,
): LogWriter {
  const stdout = new LogSink(1)
  const dependencies: LogWriterDependencies = {
    terminal: createTerminal?.(stdout) ?? null,
    stdout,
    stderr: new LogSink(2),
    openFile: (path) => LogSink.openFile(path),
    wallUs: () => (performance.timeOrigin + performance.now()) * 1000,
    pid: process.pid,
    isEscaped: process.env['TRITON_SERVER_ESCAPE_LOG_MESSAGES'] !== '0',
  }
  const log = LogWriter.create(dependencies, settings)
  process.on('exit', () => log.flushNow())
  return log
}
