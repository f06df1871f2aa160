// The syntax of RE2's regular expressions, as a tree. What RE2 refuses is refused in RE2's words: back-references and
// look-around have no linear matcher. https://github.com/google/re2/wiki/Syntax

/** Whether a character, as a code point, is meant. */
export type CharTest = (c: number) => boolean
export type Assertion = 'text-start' | 'text-end' | 'line-start' | 'line-end' | 'word-boundary' | 'no-word-boundary'

export type PatternNode =
  | { readonly kind: 'char'; readonly test: CharTest }
  | { readonly kind: 'assert'; readonly what: Assertion }
  | { readonly kind: 'sequence' | 'choice'; readonly parts: readonly PatternNode[] }
  | { readonly kind: 'repeat'; readonly part: PatternNode; readonly least: number; readonly most: number }

/** Both are RE2's. */
const mostRepeats = 1000
const deepestNesting = 1000

type Flags = { i: boolean; m: boolean; s: boolean }

export const isWordChar: CharTest = (c) =>
  (c >= 0x30 && c <= 0x39) || (c >= 0x41 && c <= 0x5a) || c === 0x5f || (c >= 0x61 && c <= 0x7a)

const among = (members: string): CharTest => {
  const test = new RegExp(`^[${members}]$`, 'u')
  return (c) => test.test(String.fromCodePoint(c))
}
const not =
  (test: CharTest): CharTest =>
  (c) =>
    !test(c)

const perlClasses: Readonly<Record<string, CharTest>> = {
  d: among('0-9'),
  s: among('\\t\\n\\f\\r '),
  w: isWordChar,
}
const posixClasses: Readonly<Record<string, CharTest>> = {
  alnum: among('0-9A-Za-z'),
  alpha: among('A-Za-z'),
  ascii: (c) => c <= 0x7f,
  blank: among('\\t '),
  cntrl: (c) => c < 0x20 || c === 0x7f,
  digit: among('0-9'),
  graph: (c) => c > 0x20 && c < 0x7f,
  lower: among('a-z'),
  print: (c) => c >= 0x20 && c < 0x7f,
  punct: among('!-\\/:-@\\[-`\\{-~'),
  space: among('\\t\\n\\v\\f\\r '),
  upper: among('A-Z'),
  word: isWordChar,
  xdigit: among('0-9A-Fa-f'),
}
const namedChars: Readonly<Record<string, number>> = { a: 7, f: 12, t: 9, n: 10, r: 13, v: 11 }

/** A character in either case. */
const folded =
  (test: CharTest): CharTest =>
  (c) => {
    if (test(c)) return true
    const char = String.fromCodePoint(c)
    return [char.toLowerCase(), char.toUpperCase()].some(
      (other) => Array.from(other).length === 1 && test(codeOf(other)),
    )
  }

const codeOf = (char: string): number => char.codePointAt(0) as number

/** Throws an Error that says what is wrong. Letters match in either case until the pattern says `(?-i)`. */
export const parsePattern = (pattern: string): PatternNode => new PatternParser(pattern).parse()

class PatternParser {
  readonly #chars: readonly string[]
  readonly #names = new Set<string>()
  #at = 0
  #depth = 0
  #flags: Flags = { i: true, m: false, s: false }

  constructor(pattern: string) {
    this.#chars = Array.from(pattern)
  }

  parse(): PatternNode {
    const node = this.#choice()
    if (this.#peek() !== undefined) throw new Error('unexpected )')
    return node
  }

  #peek(ahead = 0): string | undefined {
    return this.#chars[this.#at + ahead]
  }

  #take(expected: string): boolean {
    const { length } = expected
    if (this.#chars.slice(this.#at, this.#at + length).join('') !== expected) return false
    this.#at += length
    return true
  }

  /** The text that matches, which must begin here; null without one. */
  #match(syntax: RegExp): RegExpExecArray | null {
    // What is looked for is short: names, numbers, flags.
    const found = syntax.exec(this.#chars.slice(this.#at, this.#at + 80).join(''))
    if (found !== null) this.#at += found[0].length
    return found
  }

  #choice(): PatternNode {
    const parts = [this.#sequence()]
    while (this.#take('|')) parts.push(this.#sequence())
    return parts.length === 1 ? (parts[0] as PatternNode) : { kind: 'choice', parts }
  }

  #sequence(): PatternNode {
    const parts: PatternNode[] = []
    for (let c = this.#peek(); c !== undefined && c !== '|' && c !== ')'; c = this.#peek()) {
      if (this.#take('\\Q')) {
        while (this.#peek() !== undefined && !this.#take('\\E')) parts.push(this.#literal(this.#next()))
        const last = parts.pop()
        if (last !== undefined) parts.push(this.#repeated(last))
        continue
      }
      const atom = this.#atom()
      if (atom !== null) parts.push(this.#repeated(atom))
    }
    return { kind: 'sequence', parts }
  }

  #next(): string {
    const c = this.#peek() as string
    this.#at++
    return c
  }

  /** Null for flags, which match nothing. */
  #atom(): PatternNode | null {
    const operator = this.#repeatOperator()
    if (operator !== null) throw new Error(`no argument for repetition operator: ${operator.text}`)
    const c = this.#next()
    if (c === '(') return this.#group()
    if (c === '[') return this.#char(this.#bracket())
    if (c === '.') {
      const matchesNewLine = this.#flags.s
      return this.#char((code) => matchesNewLine || code !== 10)
    }
    if (c === '^') return { kind: 'assert', what: this.#flags.m ? 'line-start' : 'text-start' }
    if (c === '$') return { kind: 'assert', what: this.#flags.m ? 'line-end' : 'text-end' }
    if (c !== '\\') return this.#literal(c)
    const assertion = assertions[this.#peek() ?? '']
    if (assertion !== undefined) {
      this.#at++
      return { kind: 'assert', what: assertion }
    }
    if (this.#take('C')) return this.#char(() => true)
    return this.#char(this.#classEscape() ?? equals(this.#charEscape()))
  }

  #literal(c: string): PatternNode {
    return this.#char(equals(codeOf(c)))
  }

  #char(test: CharTest): PatternNode {
    return { kind: 'char', test: this.#flags.i ? folded(test) : test }
  }

  #repeatOperator(): { text: string; least: number; most: number } | null {
    const found = this.#match(/^(?:[*+?]|\{(\d{1,9})(,?)(\d{0,9})\})\??/)
    if (found === null) return null
    const [text, first, comma, last] = found
    if (first === undefined) {
      const least = text.startsWith('+') ? 1 : 0
      return { text, least, most: text.startsWith('?') ? 1 : Infinity }
    }
    const least = Number(first)
    const most = comma === '' ? least : last === '' ? Infinity : Number(last)
    if (least > mostRepeats || (most !== Infinity && most > mostRepeats) || most < least) {
      throw new Error(`invalid repetition size: ${text}`)
    }
    return { text, least, most }
  }

  #repeated(part: PatternNode): PatternNode {
    const operator = this.#repeatOperator()
    if (operator === null) return part
    const second = this.#repeatOperator()
    if (second !== null) throw new Error(`bad repetition operator: ${operator.text}${second.text}`)
    const node: PatternNode = { kind: 'repeat', part, least: operator.least, most: operator.most }
    if (repeatsOf(node) > mostRepeats) throw new Error(`invalid repetition size: ${operator.text}`)
    return node
  }

  #group(): PatternNode | null {
    if (++this.#depth > deepestNesting) throw new Error('expression nests too deeply')
    const outer = { ...this.#flags }
    if (this.#take('?')) {
      if (this.#match(/^P?<(?![=!])/) !== null) this.#groupName()
      else if (!this.#take(':') && this.#groupFlags() === 'end') {
        this.#depth--
        return null
      }
    }
    const node = this.#choice()
    if (!this.#take(')')) throw new Error('missing )')
    this.#flags = outer
    this.#depth--
    return node
  }

  #groupName(): void {
    const name = this.#match(/^(\w+)>/)?.[1]
    if (name === undefined) throw new Error('invalid named capture group')
    if (this.#names.has(name)) throw new Error(`duplicate capture group name: ${name}`)
    this.#names.add(name)
  }

  /** `i`, `m`, `s` and `U` are on, after a minus off: for the rest of the group, or for a group of their own. */
  #groupFlags(): 'end' | 'group' {
    const found = this.#match(/^([imsU]*)(?:-([imsU]+))?([):])/)
    if (found === null) throw new Error(`invalid perl operator: (?${this.#peek() ?? ''}`)
    const [, on = '', off = '', end] = found
    const flags = { ...this.#flags }
    for (const name of ['i', 'm', 's'] as const) flags[name] = !off.includes(name) && (flags[name] || on.includes(name))
    this.#flags = flags
    return end === ')' ? 'end' : 'group'
  }

  #bracket(): CharTest {
    const isNegated = this.#take('^')
    const tests: CharTest[] = []
    do {
      if (this.#peek() === undefined) throw new Error('missing ]')
      tests.push(
        this.#posixClass() ??
          (this.#take('\\')
            ? (this.#classEscape() ?? this.#range(this.#charEscape()))
            : this.#range(codeOf(this.#next()))),
      )
    } while (!this.#take(']'))
    const test: CharTest = (c) => tests.some((one) => one(c))
    // A class is folded before it is negated.
    return isNegated ? this.#negated(test) : test
  }

  #negated(test: CharTest): CharTest {
    return not(this.#flags.i ? folded(test) : test)
  }

  #range(from: number): CharTest {
    if (this.#peek() !== '-' || this.#peek(1) === ']' || this.#peek(1) === undefined) return equals(from)
    this.#at++
    const to = this.#take('\\') ? this.#charEscape() : codeOf(this.#next())
    if (to < from) throw new Error('invalid character class range')
    return (c) => c >= from && c <= to
  }

  #posixClass(): CharTest | null {
    const found = this.#match(/^\[:(\^?)(\w+):\]/)
    if (found === null) return null
    const test = posixClasses[found[2] as string]
    if (test === undefined) throw new Error(`invalid character class range: ${found[0]}`)
    return found[1] === '' ? test : this.#negated(test)
  }

  /** After a backslash: a class; null when what follows is a character. */
  #classEscape(): CharTest | null {
    const c = this.#peek() ?? ''
    const perl = perlClasses[c.toLowerCase()]
    if (perl !== undefined) {
      this.#at++
      return c === c.toLowerCase() ? perl : this.#negated(perl)
    }
    const found = this.#match(/^([pP])(?:\{(\^?)(\w+)\}|(\w))/)
    if (found === null) return null
    const [, letter, caret = '', long, short = ''] = found
    const isNegated = (letter === 'P') !== (caret === '^')
    const test = unicodeClass(long ?? short)
    return isNegated ? this.#negated(test) : test
  }

  /** After a backslash: one character. */
  #charEscape(): number {
    const hex = this.#match(/^x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/)
    if (hex !== null) {
      const code = Number.parseInt(hex[1] ?? (hex[2] as string), 16)
      if (code <= 0x10ffff) return code
      throw new Error(`invalid escape sequence: \\${hex[0]}`)
    }
    // One digit that is no zero would be a back-reference.
    const octal = this.#match(/^(?:0[0-7]{0,2}|[1-7][0-7]{1,2})/)
    if (octal !== null) return Number.parseInt(octal[0], 8)
    const c = this.#peek()
    if (c === undefined) throw new Error('trailing \\ at end of regular expression')
    this.#at++
    const named = Object.hasOwn(namedChars, c) ? namedChars[c] : undefined
    if (named !== undefined) return named
    if (codeOf(c) < 0x80 && (c === '_' || !isWordChar(codeOf(c)))) return codeOf(c)
    throw new Error(`invalid escape sequence: \\${c}`)
  }
}

const assertions: Readonly<Record<string, Assertion>> = {
  A: 'text-start',
  z: 'text-end',
  b: 'word-boundary',
  B: 'no-word-boundary',
}

const equals =
  (code: number): CharTest =>
  (c) =>
    c === code

/** A general category, or a script. */
function unicodeClass(name: string): CharTest {
  if (name === 'Any') return () => true
  for (const property of [`General_Category=${name}`, `Script=${name}`]) {
    try {
      return among(`\\p{${property}}`)
    } catch {
      // Not of this kind.
    }
  }
  throw new Error(`invalid character class range: \\p{${name}}`)
}

/** How often the innermost part is repeated at most, an endless repetition counted by its least. */
function repeatsOf(node: PatternNode): number {
  if (node.kind === 'repeat') {
    const own = node.most === Infinity ? node.least : node.most
    return Math.max(1, own) * repeatsOf(node.part)
  }
  if (node.kind === 'char' || node.kind === 'assert') return 1
  return Math.max(1, ...node.parts.map(repeatsOf))
}
