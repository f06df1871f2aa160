// JSON as inference servers write it: NaN and Infinity stand bare, and integers have up to 64 bits.

import { InferenceError } from '../inference-error.ts'

/** An integer of 16 digits or more, or a bare NaN or Infinity: rare, and only then is the slow way needed. */
const beyondJson = /(?<![\d.])\d{16}|[[,:]\s*-?(?:NaN|Inf)/

/** JSON.parse, except that NaN, Inf and Infinity are numbers and integers beyond 2^53 are bigints. */
export function parseWireJson(text: string): unknown {
  if (!beyondJson.test(text)) return JSON.parse(text) as unknown
  return new WireJsonReader(text).readAll()
}

const deepest = 256
const token =
  /[ \t\n\r]*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|(-?(?:\d[\d.eE+-]*|NaN|Inf(?:inity)?))|(true|false|null))/y

class WireJsonReader {
  readonly #text: string
  readonly #token = new RegExp(token)
  #value: unknown = null

  constructor(text: string) {
    this.#text = text
  }

  readAll(): unknown {
    const value = this.#readValue(this.#next(), 0)
    if (this.#text.slice(this.#token.lastIndex).trim() !== '') throw this.#broken()
    return value
  }

  /** The next punctuation mark; '' for a literal, whose value is then in #value. */
  #next(): string {
    const at = this.#token.lastIndex
    const match = this.#token.exec(this.#text)
    if (match === null) {
      this.#token.lastIndex = at
      throw this.#broken()
    }
    const [, mark, string, number, word] = match
    if (mark !== undefined) return mark
    if (string !== undefined) this.#value = JSON.parse(string)
    else if (number !== undefined) this.#value = this.#numberOf(number)
    else this.#value = word === 'null' ? null : word === 'true'
    return ''
  }

  #readValue(mark: string, depth: number): unknown {
    if (depth > deepest) throw this.#broken()
    if (mark === '') return this.#value
    if (mark === '[') return this.#readArray(depth)
    if (mark === '{') return this.#readObject(depth)
    throw this.#broken()
  }

  #readArray(depth: number): unknown[] {
    const values: unknown[] = []
    let mark = this.#next()
    if (mark === ']') return values
    for (;;) {
      values.push(this.#readValue(mark, depth + 1))
      mark = this.#next()
      if (mark === ']') return values
      if (mark !== ',') throw this.#broken()
      mark = this.#next()
    }
  }

  #readObject(depth: number): Record<string, unknown> {
    const members: [string, unknown][] = []
    let mark = this.#next()
    while (mark !== '}') {
      const key = this.#value
      if (mark !== '' || typeof key !== 'string' || this.#next() !== ':') throw this.#broken()
      members.push([key, this.#readValue(this.#next(), depth + 1)])
      mark = this.#next()
      if (mark === ',') {
        mark = this.#next()
        if (mark === '}') throw this.#broken()
      } else if (mark !== '}') throw this.#broken()
    }
    return Object.fromEntries(members)
  }

  #numberOf(text: string): number | bigint {
    const bare = text.replace('-', '')
    if (bare === 'NaN') return NaN
    if (bare.startsWith('Inf')) return text === bare ? Infinity : -Infinity
    const value = Number(text)
    if (Number.isNaN(value)) throw this.#broken()
    return Number.isSafeInteger(value) || !/^-?\d+$/.test(text) ? value : BigInt(text)
  }

  #broken(): InferenceError {
    return new InferenceError('PROTOCOL', `the server's JSON cannot be read at position ${this.#token.lastIndex}`)
  }
}

/** Where the JSON object that begins at 0 ends: for answers whose header a browser hides from the page. */
export function jsonObjectEnd(bytes: Uint8Array): number {
  let depth = 0
  let isString = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (isString) {
      if (byte === 0x5c) i++
      else if (byte === 0x22) isString = false
    } else if (byte === 0x22) isString = true
    else if (byte === 0x7b || byte === 0x5b) depth++
    else if (byte === 0x7d || byte === 0x5d) {
      depth--
      if (depth === 0) return i + 1
    }
  }
  throw new InferenceError('PROTOCOL', 'the answer begins with no whole JSON object')
}

/** JSON.stringify, and bigints, typed arrays, NaN and Infinity besides. */
export function wireJsonText(value: unknown): string {
  if (typeof value === 'bigint' || typeof value === 'number') return String(value)
  if (ArrayBuffer.isView(value)) return wireJsonText(Array.from(value as Uint8Array))
  if (Array.isArray(value)) return `[${value.map(wireJsonText).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).filter(([, inner]) => inner !== undefined)
  return `{${members.map(([key, inner]) => `${JSON.stringify(key)}:${wireJsonText(inner)}`).join(',')}}`
}
