// HOT: once per element of a JSON tensor. No object, no string for numbers of up to 25 digits. bench/parse-infer.bench.ts
// The loop is one long function on purpose: a helper per number would have to hand back a value and a position, which takes
// an object or state outside the loop for each element.

import { char, finiteOrNamed, type JsonScanner } from './json-scanner.ts'
import type { ElementBuffer } from './element-buffer.ts'
import { divideLong } from './long-decimal.ts'
import type { DataProblem } from './tensor-data-problem.ts'

/** Up to 1e22 a power of ten is exact in a double; the others are the nearest double. */
const powersOfTen = new Float64Array(101)
for (let i = 0; i <= 100; i++) powersOfTen[i] = Number(`1e${i}`)

const exactLimit = 2 ** 53
/**
 * More than the relative error of a sum of 25 digits in a double that is scaled by an inexact power of ten. When both
 * ends of this range round to one float, the exact value rounds to this float too.
 */
const uncertainty = 2 ** -48

/**
 * Reads the numbers of a `data` array at the scanner's position into a buffer of floats or doubles. Returns null and
 * moves behind the array when it holds only numbers, as many as expected. Otherwise returns the problem, and the
 * position is undefined. For bad JSON it returns any problem: the caller scans the text again for the syntax error.
 */
// oxlint-disable-next-line max-lines-per-function -- One loop over the text: a call for each number would cost more than reading it (bench/json-tensor.bench.ts).
export function readFloats(scanner: JsonScanner, buffer: ElementBuffer): DataProblem | null {
  const { bytes, lastBracket } = scanner
  const { count } = buffer
  const isSingle = buffer.elementBytes === 4
  let { view, capacity } = buffer
  let index = 0
  let depth = 1
  let position = scanner.position + 1
  let mayClose = true
  while (position <= lastBracket) {
    let c = bytes[position]!
    if (c === char.leftBracket) {
      depth++
      position++
      mayClose = true
      continue
    }
    if (c <= char.space) {
      if (!isWhitespace(c)) return 'type'
      position++
      continue
    }
    if (c === char.rightBracket) {
      if (!mayClose) return 'type'
    } else {
      if (index === count) return 'count'
      const start = position
      const isNegative = c === char.minus
      if (isNegative) c = bytes[++position]!
      let mantissa = 0
      let isFast = true
      if (c === char.zero) {
        c = bytes[++position]!
      } else if (c > char.zero && c <= char.nine) {
        do {
          mantissa = mantissa * 10 + (c - char.zero)
          c = bytes[++position]!
        } while (c >= char.zero && c <= char.nine)
      } else isFast = false
      let digits = position - start
      let exponent = 0
      if (c === char.dot && isFast) {
        const fractionStart = ++position
        c = bytes[position]!
        while (c >= char.zero && c <= char.nine) {
          mantissa = mantissa * 10 + (c - char.zero)
          c = bytes[++position]!
        }
        exponent = fractionStart - position
        digits -= exponent
        if (exponent === 0) isFast = false
      }
      if ((c === 0x65 || c === 0x45) && isFast) {
        c = bytes[++position]!
        const isDown = c === char.minus
        if (isDown || c === char.plus) c = bytes[++position]!
        const exponentStart = position
        let written = 0
        while (c >= char.zero && c <= char.nine) {
          written = written * 10 + (c - char.zero)
          c = bytes[++position]!
        }
        if (position === exponentStart || position > exponentStart + 3) isFast = false
        exponent += isDown ? -written : written
      }
      let value = 0
      if (isFast && mantissa < exactLimit && exponent >= -22 && exponent <= 22) {
        value = exponent < 0 ? mantissa / powersOfTen[-exponent]! : mantissa * powersOfTen[exponent]!
        if (isNegative) value = -value
      } else if (isFast && isSingle && digits <= 25 && exponent >= -100 && exponent <= 22) {
        value = exponent < 0 ? mantissa / powersOfTen[-exponent]! : mantissa * powersOfTen[exponent]!
        if (Math.fround(value - value * uncertainty) !== Math.fround(value + value * uncertainty)) {
          value = Math.abs(Number(bytes.toString('latin1', start, position)))
        }
        if (isNegative) value = -value
      } else if (isFast && exponent >= -22 && exponent <= 0 && digits <= 25) {
        value = longDecimal(bytes, start, position, -exponent)
      } else {
        scanner.position = start
        if (!isNumberStart(bytes[start]!)) return 'type'
        scanner.scanNumber()
        position = scanner.position
        value = finiteOrNamed(bytes.toString('latin1', start, position))
      }
      if (index === capacity) {
        view = buffer.grow(lastBracket - position)
        capacity = buffer.capacity
      }
      if (isSingle) view.setFloat32(index * 4, value, true)
      else view.setFloat64(index * 8, value, true)
      index++
      mayClose = true
    }
    // After a value, or at the bracket that closes an empty array.
    for (;;) {
      c = bytes[position]!
      if (c === char.comma) {
        position++
        mayClose = false
        break
      }
      if (c === char.rightBracket) {
        position++
        if (--depth === 0) {
          scanner.position = position
          return index === count ? null : 'count'
        }
      } else if (isWhitespace(c)) {
        position++
      } else return 'type'
    }
  }
  return 'type'
}

/**
 * A number of up to 25 digits without an exponent, more than a double holds. `mantissa` is the sum of its digits in a
 * double, `decimals` how many stand behind its point, at most 22.
 */
export function longFloat(
  bytes: Buffer,
  start: number,
  end: number,
  mantissa: number,
  decimals: number,
  isSingle: boolean,
): number {
  if (isSingle) {
    const value = mantissa / powersOfTen[decimals]!
    if (Math.fround(value - value * uncertainty) === Math.fround(value + value * uncertainty)) {
      return bytes[start] === char.minus ? -value : value
    }
  }
  return longDecimal(bytes, start, end, decimals)
}

/** Reads a number with more digits than a double holds. Up to 19 digits after leading zeros need no string. */
function longDecimal(bytes: Buffer, start: number, end: number, shift: number): number {
  let upper = 0
  let lower = 0
  let scale = 1
  for (let i = start; i < end; i++) {
    const c = bytes[i]!
    if (c >= char.zero && c <= char.nine) {
      if (upper < 1e14) upper = upper * 10 + (c - char.zero)
      else {
        lower = lower * 10 + (c - char.zero)
        scale *= 10
      }
    } else if (c === 0x65 || c === 0x45) break
  }
  const value = scale <= 1e4 ? divideLong(upper, scale, lower, powersOfTen[shift]!) : Number.NaN
  if (Number.isNaN(value)) return Number(bytes.toString('latin1', start, end))
  return bytes[start] === char.minus ? -value : value
}

export const isWhitespace = (c: number): boolean =>
  c === char.space || c === char.newLine || c === char.carriageReturn || c === char.tab

const isNumberStart = (c: number): boolean =>
  (c >= char.zero && c <= char.nine) || c === char.minus || c === 0x4e || c === 0x49
