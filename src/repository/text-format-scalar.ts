// One scalar value of protobuf text format, checked against the field's type.

import { nearestWord } from '../base/nearest-word.ts'
import type { FieldSchema } from '../config/model-config-schema.ts'
import { TextFormatError, type Position } from './text-format-error.ts'
import { describeToken, type TextFormatTokens, type Token } from './text-format-tokens.ts'

/** The part of a field's schema that its value depends on; a map's key has no schema of its own. */
export type ScalarType = Pick<FieldSchema, 'type' | 'enum'> & { readonly label: string }

const integerRanges: Readonly<Record<string, readonly [bigint, bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
}

export function readScalar(tokens: TextFormatTokens, scalar: ScalarType): unknown {
  if (scalar.type === 'string') return readString(tokens, scalar)
  if (scalar.type === 'bool') return readBool(tokens, scalar)
  if (scalar.enum !== null) return readEnum(tokens, scalar)
  if (scalar.type === 'float') return Math.fround(readFloat(tokens, scalar))
  if (scalar.type === 'double') return readFloat(tokens, scalar)
  return readInteger(tokens, scalar)
}

function expected(scalar: ScalarType, what: string, found: Token, hint = ''): TextFormatError {
  return new TextFormatError(found, `expected ${what} for '${scalar.label}', found ${describeToken(found)}`, hint)
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Adjacent strings are one value. */
function readString(tokens: TextFormatTokens, scalar: ScalarType): string {
  const first = tokens.current
  if (first.kind !== 'string') {
    const isWord = first.kind === 'identifier' || first.kind === 'number'
    throw expected(scalar, 'a string in quotes', first, isWord ? `write ${scalar.label}: "${first.text}"` : '')
  }
  const pieces: Uint8Array[] = []
  while (tokens.current.kind === 'string') {
    const { bytes } = tokens.take()
    if (bytes !== null) pieces.push(bytes)
  }
  try {
    return utf8.decode(pieces.length === 1 ? pieces[0] : Buffer.concat(pieces))
  } catch (reason) {
    const error = new TextFormatError(first, `the string for '${scalar.label}' is not valid UTF-8`)
    error.cause = reason
    throw error
  }
}

function readBool(tokens: TextFormatTokens, scalar: ScalarType): boolean {
  const token = tokens.current
  const isTrue = ['true', 'True', 't'].includes(token.text)
  const isFalse = ['false', 'False', 'f'].includes(token.text)
  const asNumber = token.kind === 'number' ? parseInteger(token.text) : null
  const value =
    token.kind === 'identifier' && (isTrue || isFalse)
      ? isTrue
      : asNumber === 0n || asNumber === 1n
        ? asNumber === 1n
        : null
  if (value === null) throw expected(scalar, 'true or false', token)
  tokens.take()
  return value
}

function readEnum(tokens: TextFormatTokens, scalar: ScalarType): string {
  const token = tokens.current
  const numbers = scalar.enum?.numbers ?? new Map<string, number>()
  if (token.kind === 'number') {
    const wanted = parseInteger(token.text)
    for (const [name, number] of numbers) {
      if (BigInt(number) !== wanted) continue
      tokens.take()
      return name
    }
  } else if (token.kind === 'identifier' && numbers.has(token.text)) {
    return tokens.take().text
  }
  throw expected(scalar, enumExpectation(numbers), token, enumHint(token, numbers))
}

const enumExpectation = (numbers: ReadonlyMap<string, number>): string =>
  numbers.size > 6
    ? `one of ${[...numbers.keys()].slice(1, 4).join(', ')}, …`
    : `one of ${[...numbers.keys()].join(', ')}`

/** The names of data types in other frameworks. */
const usualNames: Readonly<Record<string, string>> = {
  FLOAT16: 'FP16',
  HALF: 'FP16',
  BFLOAT16: 'BF16',
  FLOAT: 'FP32',
  FLOAT32: 'FP32',
  DOUBLE: 'FP64',
  FLOAT64: 'FP64',
  BOOLEAN: 'BOOL',
  INT: 'INT32',
  LONG: 'INT64',
  BYTE: 'UINT8',
  BYTES: 'STRING',
}

function enumHint(token: Token, numbers: ReadonlyMap<string, number>): string {
  const bare = token.kind === 'string' ? token.text.slice(1, -1) : token.text
  if (numbers.has(bare)) return `write ${bare} without quotes`
  const upper = bare.toUpperCase()
  const type = `TYPE_${usualNames[upper.replace(/^TYPE_/, '')] ?? upper}`
  const suffixed = [...numbers.keys()].find((name) => name.endsWith(`_${upper}`))
  const near = numbers.has(type) ? type : (suffixed ?? nearestWord(upper, numbers.keys()))
  if (near !== null) return `did you mean ${near}?`
  return `known are ${[...numbers.keys()].join(', ')}`
}

/** Decimal, hexadecimal (0x1f) or octal (017); null for any other text. */
function parseInteger(text: string): bigint | null {
  if (/^0[0-7]+$/.test(text)) return BigInt(`0o${text.slice(1)}`)
  return /^(?:0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)$/.test(text) ? BigInt(text) : null
}

function takeMinus(tokens: TextFormatTokens): boolean {
  const isMinus = tokens.current.kind === 'sign' && tokens.current.text === '-'
  if (isMinus) tokens.take()
  return isMinus
}

function readInteger(tokens: TextFormatTokens, scalar: ScalarType): number | bigint {
  const start: Position = tokens.current
  const isNegative = takeMinus(tokens)
  const token = tokens.current
  const magnitude = token.kind === 'number' ? parseInteger(token.text) : null
  if (magnitude === null) {
    const isQuoted = token.kind === 'string' && /^["']-?[0-9]+["']$/.test(token.text)
    throw expected(scalar, 'a whole number', token, isQuoted ? 'write the number without quotes' : '')
  }
  const value = isNegative ? -magnitude : magnitude
  const [low, high] = integerRanges[scalar.type] ?? [0n, 0n]
  // Not even -0 is allowed for an unsigned number.
  if (value < low || value > high || (isNegative && low === 0n)) {
    const what = `${isNegative ? '-' : ''}${magnitude} is out of range for '${scalar.label}' (${scalar.type}: ${low} to ${high})`
    throw new TextFormatError(start, what)
  }
  if (scalar.type === 'int64' && !Number.isSafeInteger(Number(value))) {
    throw new TextFormatError(start, `${value} is out of range for '${scalar.label}': at most 2^53 - 1 is supported`)
  }
  tokens.take()
  return scalar.type === 'uint64' ? value : Number(value)
}

function readFloat(tokens: TextFormatTokens, scalar: ScalarType): number {
  const isNegative = takeMinus(tokens)
  const token = tokens.current
  const magnitude = floatMagnitude(token)
  if (magnitude === null) throw expected(scalar, 'a number', token)
  tokens.take()
  return isNegative ? -magnitude : magnitude
}

function floatMagnitude(token: Token): number | null {
  if (token.kind === 'identifier') {
    const word = token.text.toLowerCase()
    if (word === 'inf' || word === 'infinity') return Infinity
    return word === 'nan' ? NaN : null
  }
  // Hexadecimal and octal numbers are for integers only.
  if (token.kind !== 'number' || /^0[xX]|^0[0-9]+$/.test(token.text)) return null
  return Number(token.text.replace(/[fF]$/, ''))
}
