/** BigInt() takes time with the square of the digits, so no more than these are ever given to it. 2⁶⁴ has 20. */
const mostDigits = 20
const beyondEveryRange = 2n ** 70n

/**
 * The number that a text begins with, as C++'s `stol` and its like find it: white space before it and anything after it
 * are ignored. Null without a number. One that has no place in 64 bits is ±2⁷⁰, however long it is.
 */
export function leadingInteger(text: string): bigint | null {
  const match = /^\s*([+-]?)(\d+)/.exec(text)
  if (match === null) return null
  const digits = (match[2] as string).replace(/^0+/, '')
  const size = digits.length > mostDigits ? beyondEveryRange : BigInt(digits)
  return match[1] === '-' ? -size : size
}
