// HOT: once per element of a JSON output. Numbers as RapidJSON prints them. bench/parse-infer.bench.ts
//
// RapidJSON and JavaScript switch to an exponent at the same places (above 21 digits, below 1e-6) and differ in two
// signs: RapidJSON gives an integral double its `.0` and an exponent no `+`.

/** The most bytes a number takes: a sign, 17 digits, a point, five zeros and an exponent, or 21 digits and `.0`. */
export const maxNumberBytes = 26

const digitPairs = Buffer.from(Array.from({ length: 100 }, (_, i) => String(i).padStart(2, '0')).join(''))

/** Writes an unsigned integer below 2⁵³ and returns where it ends. */
export function writeUnsigned(target: Uint8Array, offset: number, value: number): number {
  if (value < 10) {
    target[offset] = 0x30 + value
    return offset + 1
  }
  if (value > 0xffffffff) {
    const upper = Math.floor(value / 1e8)
    return writePadded(target, writeUnsigned(target, offset, upper), value - upper * 1e8, 8)
  }
  return writePadded(target, offset, value, decimalLength(value))
}

/** Writes a number below 2³² with leading zeros up to `digits`. */
function writePadded(target: Uint8Array, offset: number, value: number, digits: number): number {
  const end = offset + digits
  let position = end
  let rest = value
  while (position - offset >= 2) {
    const quotient = Math.floor(rest / 100)
    const pair = (rest - quotient * 100) * 2
    target[--position] = digitPairs[pair + 1]!
    target[--position] = digitPairs[pair]!
    rest = quotient
  }
  if (position > offset) target[offset] = 0x30 + rest
  return end
}

function decimalLength(value: number): number {
  if (value < 100) return value < 10 ? 1 : 2
  if (value < 10000) return value < 1000 ? 3 : 4
  if (value < 1e6) return value < 1e5 ? 5 : 6
  if (value < 1e8) return value < 1e7 ? 7 : 8
  return value < 1e9 ? 9 : 10
}

/** Writes any integer that a JavaScript number holds exactly. */
export function writeInteger(target: Uint8Array, offset: number, value: number): number {
  if (value >= 0) return writeUnsigned(target, offset, value)
  target[offset] = 0x2d
  return writeUnsigned(target, offset + 1, -value)
}

/** Writes a 64-bit integer from its two unsigned halves. */
export function writeUnsigned64(target: Uint8Array, offset: number, high: number, low: number): number {
  // Below 2⁵³ the two halves make an exact number.
  if (high < 0x200000) return writeUnsigned(target, offset, high * 0x100000000 + low)
  // high × 2³² + low divided by 10⁹, 16 bits at a time: every intermediate stays below 2⁵³.
  const first = high * 65536 + (low >>> 16)
  const quotientHigh = Math.floor(first / 1e9)
  const second = (first - quotientHigh * 1e9) * 65536 + (low & 0xffff)
  const quotientLow = Math.floor(second / 1e9)
  const quotient = quotientHigh * 65536 + quotientLow
  return writePadded(target, writeUnsigned(target, offset, quotient), second - quotientLow * 1e9, 9)
}

export function writeSigned64(target: Uint8Array, offset: number, high: number, low: number): number {
  if (high < 0x80000000) return writeUnsigned64(target, offset, high, low)
  target[offset] = 0x2d
  const negatedLow = -low >>> 0
  const negatedHigh = (~high + (negatedLow === 0 ? 1 : 0)) >>> 0
  return writeUnsigned64(target, offset + 1, negatedHigh, negatedLow)
}

export function writeDouble(target: Uint8Array, offset: number, value: number): number {
  if (isShortInteger(value)) return writeIntegral(target, offset, value)
  const rounded = Math.round(value * 1e6)
  // A decimal of at most 15 digits that reads back as the value is the shortest one that does.
  if (rounded / 1e6 === value && rounded < 1e15 && rounded > -1e15 && (rounded > 9 || rounded < -9)) {
    return writeMillionths(target, offset, rounded)
  }
  return writeText(target, offset, value)
}

/** Writes a float as the double of the same value. Few have a short decimal; only multiples of 1/64 are tried. */
export function writeFloat(target: Uint8Array, offset: number, value: number): number {
  if (isShortInteger(value)) return writeIntegral(target, offset, value)
  const scaled = value * 64
  if (scaled < 1e8 && scaled > -1e8 && Math.floor(scaled) === scaled) {
    return writeMillionths(target, offset, scaled * 15625)
  }
  return writeText(target, offset, value)
}

const isShortInteger = (value: number): boolean => Math.floor(value) === value && value < 1e15 && value > -1e15

function writeIntegral(target: Uint8Array, offset: number, value: number): number {
  if (value === 0 && Object.is(value, -0)) target[offset++] = 0x2d
  const end = writeInteger(target, offset, value)
  target[end] = 0x2e
  target[end + 1] = 0x30
  return end + 2
}

/** Writes a number of millionths as up to six decimals, without zeros at the end. */
function writeMillionths(target: Uint8Array, offset: number, millionths: number): number {
  if (millionths < 0) {
    target[offset++] = 0x2d
    millionths = -millionths
  }
  const whole = Math.floor(millionths / 1e6)
  const point = writeUnsigned(target, offset, whole)
  target[point] = 0x2e
  let end = writePadded(target, point + 1, millionths - whole * 1e6, 6)
  while (target[end - 1] === 0x30) end--
  return end
}

function writeText(target: Uint8Array, offset: number, value: number): number {
  const text = String(value)
  let hasPoint = false
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === 0x2b) continue
    // A point, an exponent, or the letters of NaN and Infinity: nothing to add.
    if (c === 0x2e || c > 0x39) hasPoint = true
    target[offset++] = c
  }
  if (!hasPoint) {
    target[offset++] = 0x2e
    target[offset++] = 0x30
  }
  return offset
}
