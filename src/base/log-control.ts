// What an operator may look at and change in the log of a running server.

export type LogFormat = 'default' | 'ISO8601' | 'json'

export const logFormats: readonly LogFormat[] = ['default', 'ISO8601', 'json']

export type AdjustableLogSettings = {
  readonly isInfoOn: boolean
  readonly isWarningOn: boolean
  readonly isErrorOn: boolean
  readonly verboseLevel: number
  readonly format: LogFormat
}

export interface LogControl {
  /** `file` is '' when there is none. */
  readonly settings: AdjustableLogSettings & { readonly file: string }
  /** The settings hold from now on. */
  configure(changes: Partial<AdjustableLogSettings>): void
}

/** As Triton keeps the level, in an int32: a number that wraps around to a negative one is no level, so 0. */
export const verboseLevelOf = (given: number | bigint): number => Math.max(0, Number(BigInt.asIntN(32, BigInt(given))))
