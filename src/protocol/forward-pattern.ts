// Decides which headers (HTTP) or metadata (gRPC) become request parameters: the operator's pattern and reserved names.

import { messageOf, ServerError } from '../base/server-error.ts'

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

/** Longer names are never matched: a pattern with nested repetitions may take exponential time in the name's length. */
const longestNameChars = 128
const mostRememberedNames = 1024

/** As in Triton the match is case-insensitive and may be anywhere in the name. */
export class ForwardPattern {
  readonly #pattern: RegExp
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
      isMatch = name.length <= longestNameChars && this.#pattern.test(name)
      if (this.#verdicts.size >= mostRememberedNames) this.#verdicts.clear()
      this.#verdicts.set(name, isMatch)
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

/** Triton's patterns are for RE2. Syntax that JavaScript spells differently is translated; other syntax is refused. */
function compile(flag: string, pattern: string): RegExp {
  const refuse = (why: string): never => {
    throw new ServerError('INVALID_ARG', `${flag} '${pattern}' is not a valid regular expression: ${why}`)
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
