// Decides which headers (HTTP) or metadata (gRPC) become request parameters: the operator's pattern and reserved names.

import { messageOf, ServerError } from '../base/server-error.ts'
import { LinearPattern } from '../base/linear-pattern.ts'

/** Request parameters with a meaning of their own: a header must not set them. */
const reservedNames: ReadonlySet<string> = new Set([
  'sequence_id',
  'sequence_start',
  'sequence_end',
  'priority',
  'timeout',
  'headers',
  'binary_data_output',
])

/** Verdicts on longer names are not kept. */
const longestRememberedChars = 128
const mostRememberedNames = 1024

/** As in Triton the pattern has RE2's syntax, and the match is case-insensitive and may be anywhere in the name. */
export class ForwardPattern {
  readonly #pattern: LinearPattern
  /** Clients send the same few names all the time. */
  readonly #verdicts = new Map<string, boolean>()

  /** Throws ServerError that names the flag when the pattern is not valid. */
  constructor(flag: string, pattern: string) {
    this.#pattern = compile(flag, pattern)
  }

  /** HOT: once per header when forwarding is on. Throws for a reserved name. */
  matches(name: string): boolean {
    let isMatch = this.#verdicts.get(name)
    if (isMatch === undefined) {
      isMatch = this.#pattern.matches(name)
      if (this.#verdicts.size >= mostRememberedNames) this.#verdicts.clear()
      if (name.length <= longestRememberedChars) this.#verdicts.set(name, isMatch)
    }
    if (isMatch && (reservedNames.has(name) || name.startsWith('triton_'))) {
      throw ServerError.withoutStack(
        'INVALID_ARG',
        `Header '${name}' is reserved for Triton usage and cannot be forwarded.`,
      )
    }
    return isMatch
  }
}

function compile(flag: string, pattern: string): LinearPattern {
  try {
    return new LinearPattern(pattern)
  } catch (reason) {
    const message = `${flag} '${pattern}' is not a valid regular expression: ${messageOf(reason)}`
    throw new ServerError('INVALID_ARG', message)
  }
}
