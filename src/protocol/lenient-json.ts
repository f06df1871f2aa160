// JSON as protobuf's reader takes it, and so Triton where a client sends a configuration: names without quotes, texts in single
// quotes, a comma behind the last entry, line ends and other control characters inside of a text. People write such
// configurations by hand, in the code of their clients.

const space = /[ \t\r\n]+/y
// A \u without four digits is no escape.
const doubleQuoted = /"([^"\\]*(?:\\(?!u(?![0-9a-fA-F]{4}))[^][^"\\]*)*)"/y
const singleQuoted = /'([^'\\]*(?:\\(?!u(?![0-9a-fA-F]{4}))[^][^'\\]*)*)'/y
const bareName = /(?!(?:true|false|null)\b)[A-Za-z_$][\w$]*(?=[ \t\r\n]*:)/y
const comma = /,/y
/** Numbers, words and punctuation. They stay what they are. A word is taken whole: it is looked at once, however long it is. */
const other = /[\w$]+|[^"',\s]/y

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/** The same in strict JSON. What cannot be read stands in it as it was, for a parser to tell. */
export function strictJsonOf(text: string): string {
  const parts: string[] = []
  let at = 0
  /** The text of the group, or else of the match; null where the pattern does not match. */
  const take = (pattern: RegExp): string | null => {
    pattern.lastIndex = at
    const match = pattern.exec(text)
    if (match === null) return null
    at = pattern.lastIndex
    return match[1] ?? match[0]
  }
  /** Whether an entry ended before, so that a comma may stand there. */
  let isBehindEntry = false
  while (at < text.length) {
    if (take(space) !== null) parts.push(' ')
    const string = take(doubleQuoted) ?? take(singleQuoted) ?? take(bareName)
    if (string !== null) {
      parts.push(JSON.stringify(unescaped(string)))
      isBehindEntry = true
    } else if (take(comma) !== null) {
      take(space)
      const isLast = text[at] === '}' || text[at] === ']'
      if (!isLast || !isBehindEntry) parts.push(',')
      isBehindEntry = false
    } else {
      const rest = take(other) ?? text[at++] ?? ''
      parts.push(rest)
      isBehindEntry = !'[{:'.includes(rest)
    }
  }
  return parts.join('')
}

/** An escape that JSON does not have is the character itself. */
const unescaped = (text: string): string =>
  text.includes('\\')
    ? text.replaceAll(/\\(?:u([0-9a-fA-F]{4})|([^]))/g, (_, hex?: string, character = '') =>
        hex === undefined ? (escapes[character] ?? character) : String.fromCharCode(Number.parseInt(hex, 16)),
      )
    : text
