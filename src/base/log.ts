// What is logged is an event: a fixed message with its facts in fields. How a line looks belongs to the writer (cli/).

export type LogLevel = 'error' | 'warning' | 'info' | 'verbose'
export type LogFields = Readonly<Record<string, string | number | boolean | bigint | null | undefined>>
export type LogEntry = {
  readonly level: LogLevel
  readonly message: string
  readonly fields: LogFields
  /** The file that speaks, as in Triton's lines: `model-lifecycle.ts:0`. Empty when nobody said. */
  readonly source: string
}

export interface Log {
  error(message: string, fields?: LogFields): void
  warning(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  /** Level 1 and up; the caller asks `isVerbose` first when building the message costs something. */
  verbose(message: string, fields?: LogFields): void
  isVerbose(level?: number): boolean
  /** The same log, speaking for another file. */
  from(source: string): Log
}

export const silentLog: Log = {
  error: () => undefined,
  warning: () => undefined,
  info: () => undefined,
  verbose: () => undefined,
  isVerbose: () => false,
  from: () => silentLog,
}
