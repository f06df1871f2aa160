import { messageOf, ServerError } from '../../base/server-error.ts'
import type { ParameterValue } from '../../model/inference-request.ts'

/** Names that mean something as request parameters already: metadata may not smuggle them in. */
const reservedNames: ReadonlySet<string> = new Set([
  'sequence_id',
  'sequence_start',
  'sequence_end',
  'priority',
  'timeout',
  'headers',
  'binary_data_output',
])

/** Longer names are never matched: a pattern with nested repetitions may take exponential time in the name's length. */
const longestNameChars = 128
const mostRememberedNames = 1024

/**
 * Copies metadata whose name matches `--grpc-header-forward-pattern` into request parameters. As in Triton the match is
 * case-insensitive and may be anywhere in the name, and the last value counts.
 */
export class MetadataForwarding {
  readonly #pattern: RegExp
  /** Clients send the same few names all the time. */
  readonly #verdicts = new Map<string, boolean>()

  constructor(pattern: string) {
    this.#pattern = compileForwardPattern(pattern)
  }

  /** HOT: once per request when forwarding is on. Throws for a reserved name. */
  forward(metadata: readonly string[], parameters: Map<string, ParameterValue>): void {
    for (let i = 0; i < metadata.length; i += 2) {
      const name = metadata[i] as string
      if (name.startsWith(':') || !this.#matches(name)) continue
      if (reservedNames.has(name) || name.startsWith('triton_')) {
        throw ServerError.withoutStack(
          'INVALID_ARG',
          `Header '${name}' is reserved for Triton usage and cannot be forwarded.`,
        )
      }
      const value = metadata[i + 1] as string
      parameters.set(name, name.endsWith('-bin') ? Buffer.from(value, 'base64').toString('latin1') : value)
    }
  }

  #matches(name: string): boolean {
    const known = this.#verdicts.get(name)
    if (known !== undefined) return known
    const isMatch = name.length <= longestNameChars && this.#pattern.test(name)
    if (this.#verdicts.size >= mostRememberedNames) this.#verdicts.clear()
    this.#verdicts.set(name, isMatch)
    return isMatch
  }
}

/** Triton's patterns are RE2's. What RE2 has and JavaScript spells differently is translated, what RE2 lacks is refused. */
function compileForwardPattern(pattern: string): RegExp {
  const refuse = (why: string): never => {
    throw new ServerError(
      'INVALID_ARG',
      `--grpc-header-forward-pattern '${pattern}' is not a valid regular expression: ${why}`,
    )
  }
  if (/(?<!\\)\(\?(?:=|!|<=|<!)/.test(pattern)) refuse('look-ahead and look-behind are not supported')
  if (/(?<!\\)(?:\\\\)*\\[1-9]/.test(pattern)) refuse('back-references are not supported')
  const translated = pattern
    .replace(/^\(\?i\)/, '')
    .replaceAll('(?P<', '(?<')
    .replaceAll('\\A', '^')
    .replaceAll('\\z', '$')
  try {
    return new RegExp(translated, 'i')
  } catch (reason) {
    return refuse(messageOf(reason))
  }
}
