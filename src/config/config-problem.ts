import { ServerError, type ErrorCode } from '../base/server-error.ts'

/** One thing wrong with a configuration. The rules yield all of them in Triton's order; the server reports the first. */
export type ConfigProblem = {
  /** Where, in wire names: `input[0].dims`, `dynamic_batching.preferred_batch_size[1]`; '' for the whole configuration. */
  readonly path: string
  /** Triton's text. */
  readonly message: string
  readonly code: ErrorCode
  /** What a person can do; never on the wire. '' when the message says enough. */
  readonly fix: string
}

export const problem = (path: string, message: string, fix = '', code: ErrorCode = 'INVALID_ARG'): ConfigProblem => ({
  path,
  message,
  code,
  fix,
})

/** `advise` gets what a person can do, where the message does not say it. */
export function throwFirst(problems: Iterable<ConfigProblem>, advise: (fix: string) => void = () => undefined): void {
  for (const { code, message, fix } of problems) {
    if (fix !== '') advise(fix)
    throw new ServerError(code, message)
  }
}
