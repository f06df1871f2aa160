// Cuts protobuf text format into tokens: identifiers, numbers, strings and signs. Comments and blanks are left out.

import { TextFormatError, type Position } from './text-format-error.ts'
import { decodeStringBody } from './text-format-string.ts'

type TokenKind = 'identifier' | 'number' | 'string' | 'sign' | 'end'
export type Token = Position & {
  readonly kind: TokenKind
  /** The text as written. The decoded bytes of a string are in `bytes`. */
  readonly text: string
  readonly bytes: Uint8Array | null
}

const blanks = /(?:[ \t\r\n\v\f]|#[^\n]*)+/y
const identifier = /[A-Za-z_][A-Za-z0-9_]*/y
const number = /0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?/y
const quoted = /"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'/y
const signs = '{}<>[]:,;-/.'

export class TextFormatTokens {
  readonly #text: string
  #offset = 0
  #line = 1
  #lineStart = 0
  #current: Token

  constructor(text: string) {
    // Some editors write a byte order mark, which nobody sees.
    this.#text = text.startsWith('\uFEFF') ? text.slice(1) : text
    this.#current = this.#read()
  }

  get current(): Token {
    return this.#current
  }

  /** Goes on to the next token and returns the one before it. */
  take(): Token {
    const token = this.#current
    this.#current = this.#read()
    return token
  }

  #position(offset = this.#offset): Position {
    return { line: this.#line, column: offset - this.#lineStart + 1 }
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#offset
    return pattern.exec(this.#text)?.[0] ?? null
  }

  #skipBlanks(): void {
    const skipped = this.#match(blanks)
    if (skipped === null) return
    for (let at = skipped.indexOf('\n'); at >= 0; at = skipped.indexOf('\n', at + 1)) {
      this.#line++
      this.#lineStart = this.#offset + at + 1
    }
    this.#offset += skipped.length
  }

  #read(): Token {
    this.#skipBlanks()
    const position = this.#position()
    const first = this.#text[this.#offset]
    if (first === undefined) return { ...position, kind: 'end', text: '', bytes: null }
    const name = this.#match(identifier)
    if (name !== null) return this.#token('identifier', name, position)
    // A lone dot is a sign (and always a mistake); a dot before a digit begins a number.
    const digits = this.#match(number)
    if (digits !== null) return this.#number(digits, position)
    if (first === '"' || first === "'") return this.#string(first, position)
    if (signs.includes(first)) return this.#token('sign', first, position)
    const shown = String.fromCodePoint(this.#text.codePointAt(this.#offset) ?? 0)
    throw new TextFormatError(position, `unexpected character '${shown}'`, characterHint(shown))
  }

  #token(kind: TokenKind, text: string, position: Position, bytes: Uint8Array | null = null): Token {
    this.#offset += text.length
    return { ...position, kind, text, bytes }
  }

  #number(text: string, position: Position): Token {
    const next = this.#text[this.#offset + text.length] ?? ''
    if (/[A-Za-z0-9_.]/.test(next)) {
      throw new TextFormatError(position, `malformed number '${text}${next}'`, 'leave a blank after a number')
    }
    return this.#token('number', text, position)
  }

  #string(quote: string, position: Position): Token {
    const text = this.#match(quoted)
    if (text === null) {
      throw new TextFormatError(position, 'this string has no closing quote on its line', `add ${quote} at its end`)
    }
    const bytes = decodeStringBody(text.slice(1, -1), (at, what) => {
      throw new TextFormatError(this.#position(this.#offset + 1 + at), what)
    })
    return this.#token('string', text, position, bytes)
  }
}

function characterHint(character: string): string {
  if ('“”„‟«»‘’'.includes(character)) return 'use straight quotes: " or \''
  if (character === '=') return "write 'field: value'"
  return character === '(' || character === ')' ? 'lists are written in [ ], messages in { }' : ''
}

export function describeToken(token: Token): string {
  if (token.kind === 'end') return 'the end of the file'
  if (token.kind === 'string')
    return `the string ${token.text.length > 40 ? `${token.text.slice(0, 40)}…` : token.text}`
  return `'${token.text}'`
}
