// Logarithms of the gamma and beta functions, and of sums of exponentials. Evidence is kept as logarithms: e-values of a
// long rollout leave the range of a number.

/** Stirling's series for ln Γ, by odd powers of 1/x. Below `leastForSeries` the recurrence Γ(x+1) = xΓ(x) goes first. */
const series = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]
const leastForSeries = 15
const halfLogTwoPi = Math.log(2 * Math.PI) / 2

/** ln Γ(x) for x > 0, exact to the last digits of a number. */
export function logGamma(x: number): number {
  let product = 1
  let shifted = x
  while (shifted < leastForSeries) product *= shifted++
  const inverse = 1 / shifted
  const square = inverse * inverse
  let sum = 0
  for (let i = series.length - 1; i >= 0; i--) sum = sum * square + (series[i] as number)
  return (shifted - 0.5) * Math.log(shifted) - shifted + halfLogTwoPi + sum * inverse - Math.log(product)
}

export const logBeta = (a: number, b: number): number => logGamma(a) + logGamma(b) - logGamma(a + b)

/** ln of the mean of exp(x). */
export function logMeanExp(values: readonly number[]): number {
  let highest = -Infinity
  for (const value of values) if (value > highest) highest = value
  if (highest === -Infinity) return -Infinity
  let sum = 0
  for (const value of values) sum += Math.exp(value - highest)
  return highest + Math.log(sum / values.length)
}
