import { messageOf, ServerError } from '../../base/server-error.ts'
import type { ParameterValue } from '../../model/inference-request.ts'

/** Names that mean something as request parameters already: a header may not smuggle them in. */
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
 * Copies request headers whose name matches `--http-header-forward-pattern` into request parameters. As in Triton the
 * match is case-insensitive and may be anywhere in the name, names keep the client's spelling and the last value counts.
 */
export class HeaderForwarding {
  readonly #pattern: RegExp
  /** Clients send the same few names all the time. */
  readonly #verdicts = new Map<string, boolean>()

  constructor(pattern: string) {
    this.#pattern = compileForwardPattern(pattern)
  }

  /** HOT: once per request when forwarding is on. Throws for a reserved name. */
  forward(headers: readonly string[], parameters: Map<string, ParameterValue>): void {
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] as string
      if (!this.#matches(name)) continue
      if (reservedNames.has(name) || name.startsWith('triton_')) {
        throw ServerError.withoutStack(
          'INVALID_ARG',
          `Header '${name}' is reserved for Triton usage and cannot be forwarded.`,
        )
      }
      parameters.set(name, utf8Of(headers[i + 1] as string))
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

const hasNonAscii = /[\u0080-\u00ff]/

/** Header values arrive one character per byte. */
const utf8Of = (latin1: string): string =>
  hasNonAscii.test(latin1) ? Buffer.from(latin1, 'latin1').toString('utf8') : latin1

const posixClasses: Readonly<Record<string, string>> = {
  alnum: 'A-Za-z0-9',
  alpha: 'A-Za-z',
  digit: '0-9',
  lower: 'a-z',
  upper: 'A-Z',
  xdigit: 'A-Fa-f0-9',
  word: '\\w',
  space: '\\s',
  punct: '!-\\/:-@\\[-`{-~',
}

/** Triton's patterns are RE2's. What RE2 has and JavaScript spells differently is translated, what RE2 lacks is refused. */
export function compileForwardPattern(pattern: string): RegExp {
  const refuse = (why: string): never => {
    throw new ServerError(
      'INVALID_ARG',
      `--http-header-forward-pattern '${pattern}' is not a valid regular expression: ${why}`,
    )
  }
  if (/(?<!\\)\(\?(?:=|!|<=|<!)/.test(pattern)) refuse('look-ahead and look-behind are not supported')
  if (/(?<!\\)(?:\\\\)*\\[1-9]/.test(pattern)) refuse('back-references are not supported')
  const translated = pattern
    .replace(/^\(\?i\)/, '')
    .replaceAll('(?P<', '(?<')
    .replaceAll('\\A', '^')
    .replaceAll('\\z', '$')
    .replaceAll(/\[:(\w+):\]/g, (whole, name: string) => posixClasses[name] ?? whole)
  try {
    return new RegExp(translated, 'i')
  } catch (reason) {
    return refuse(messageOf(reason))
  }
}
