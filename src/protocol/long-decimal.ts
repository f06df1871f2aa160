// Decimals of 16 to 19 digits, as every client prints doubles, without a string per number. Sums and products of two
// doubles carry their rounding error along (Dekker, Knuth), which gives 106 bits: nearly always enough to know how the
// exact value rounds, and where it is not, that is known too. bench/parse-infer.bench.ts

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
