// HOT: once per element of a JSON tensor. No object, no string, no bigint. bench/parse-infer.bench.ts

import type { ElementBuffer } from './element-buffer.ts'
import { isWhitespace } from './json-float-reader.ts'
import { char, type JsonScanner } from './json-scanner.ts'
import type { DataProblem } from './tensor-data-problem.ts'

const two32 = 2 ** 32
const two31 = 2 ** 31
const billion = 1e9

/** The result of `splitDigits`: a result object per element would cost more than to read the digits. */
const halves = new Float64Array(2)

/**
 * Like `readFloats`, for integers. They are read as 64 bits and cut to the element's width without a check, as in Triton.
 */
// oxlint-disable-next-line max-lines-per-function -- One loop over the text: a call for each number would cost more than reading it (bench/json-tensor.bench.ts).
export function readIntegers(scanner: JsonScanner, buffer: ElementBuffer, isSigned: boolean): DataProblem | null {
  const { bytes, lastBracket } = scanner
  const { count, elementBytes } = buffer
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
      const isNegative = c === char.minus
      if (isNegative) c = bytes[++position]!
      const start = position
      if (c < char.zero || c > char.nine) return 'type'
      // Nine digits at a time fit 32 bits: integer arithmetic, and no doubles unless there are more.
      let leading = c - char.zero
      c = bytes[++position]!
      if (leading !== 0) {
        const pause = start + 9
        while (c >= char.zero && c <= char.nine && position < pause) {
          leading = (leading * 10 + (c - char.zero)) | 0
          c = bytes[++position]!
        }
      }
      let magnitude = leading
      if (c >= char.zero && c <= char.nine) {
        if (leading === 0) return 'type'
        const pause = position + 6
        let trailing = 0
        let scale = 1
        while (c >= char.zero && c <= char.nine && position < pause) {
          trailing = (trailing * 10 + (c - char.zero)) | 0
          scale = (scale * 10) | 0
          c = bytes[++position]!
        }
        magnitude = leading * scale + trailing
        while (c >= char.zero && c <= char.nine) c = bytes[++position]!
      }
      if (isNegative && !isSigned && magnitude !== 0) return 'type'
      if (index === capacity) {
        view = buffer.grow(lastBracket - position)
        capacity = buffer.capacity
      }
      const isLong = position - start > 15
      if (isLong) {
        if (!splitDigits(bytes, start, position)) return 'type'
        if (isSigned && !isWithinInt64(isNegative)) return 'type'
      }
      if (elementBytes === 8) {
        const high = isLong ? halves[0]! : Math.floor(magnitude / two32)
        const low = isLong ? halves[1]! : magnitude - high * two32
        // Two's complement: the low half carries into the high one only when it is zero.
        view.setInt32(index * 8, isNegative ? -low : low, true)
        view.setInt32(index * 8 + 4, isNegative ? (low === 0 ? -high : -high - 1) : high, true)
      } else {
        const low = isLong ? halves[1]! : magnitude
        const value = isNegative ? -low : low
        if (elementBytes === 4) view.setInt32(index * 4, value, true)
        else if (elementBytes === 2) view.setInt16(index * 2, value, true)
        else view.setInt8(index, value)
      }
      index++
      mayClose = true
    }
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

/** Puts 16 to 20 digits into `halves`; false when they are more than 64 bits. */
function splitDigits(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start > 20) return false
  const first = digitsBetween(bytes, start, end - 18)
  const upper = first * billion + digitsBetween(bytes, Math.max(start, end - 18), end - 9)
  const lower = digitsBetween(bytes, end - 9, end)
  // upper × 10⁹ + lower in pieces of 16 bits: every product stays below 2⁵³.
  const upperHigh = Math.floor(upper / 65536)
  const piece = upperHigh * billion
  const pieceHigh = Math.floor(piece / 65536)
  const rest = (piece - pieceHigh * 65536) * 65536 + (upper - upperHigh * 65536) * billion + lower
  const carry = Math.floor(rest / two32)
  halves[0] = pieceHigh + carry
  halves[1] = rest - carry * two32
  return pieceHigh + carry < two32
}

/** The number that up to nine digits make. */
function digitsBetween(bytes: Uint8Array, start: number, end: number): number {
  let value = 0
  for (let i = start; i < end; i++) value = (value * 10 + (bytes[i]! - char.zero)) | 0
  return value
}

const isWithinInt64 = (isNegative: boolean): boolean =>
  halves[0]! < two31 || (isNegative && halves[0] === two31 && halves[1] === 0)
