// Reads decimals of 16 to 19 digits, as clients print doubles, without a string per number. Sums and products of two
// doubles keep their rounding error (Dekker, Knuth), which gives 106 bits. That is nearly always enough to round
// exactly, and the code knows when it is not. bench/parse-infer.bench.ts

const splitter = 2 ** 27 + 1
const uncertainty = 2 ** -45

/** The rounding error of a × b. */
function productError(a: number, b: number, product: number): number {
  const ca = splitter * a
  const ah = ca - (ca - a)
  const al = a - ah
  const cb = splitter * b
  const bh = cb - (cb - b)
  const bl = b - bh
  return ah * bh - product + ah * bl + al * bh + al * bl
}

/**
 * (upper × scale + lower) ÷ divisor, correctly rounded; NaN when 106 bits do not settle it. `upper` and `lower` are integers
 * below 2⁵³ and 10⁴, `scale` is a power of ten up to 10⁴, `divisor` one up to 10²²: all exact.
 */
export function divideLong(upper: number, scale: number, lower: number, divisor: number): number {
  const product = upper * scale
  const sum = product + lower
  // The digits as an exact sum of two doubles.
  const digitsError = productError(upper, scale, product) + (lower - (sum - product))
  const quotient = sum / divisor
  const back = quotient * divisor
  const remainder = sum - back - productError(quotient, divisor, back) + digitsError
  const correction = remainder / divisor
  const spread = Math.abs(correction) * uncertainty
  const value = quotient + (correction - spread)
  return value === quotient + (correction + spread) ? value : Number.NaN
}
