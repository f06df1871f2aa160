/** Sizes of a tensor's dimensions, outermost first; -1 stands for "any" in a configuration and never in a request. */
export type Shape = readonly number[]

/** The product of the dimensions: 1 for a scalar, -1 when a dimension is open, Infinity beyond what a number can count. */
export function elementCount(shape: Shape): number {
  let count = 1
  for (const size of shape) {
    if (size < 0) return -1
    count *= size
  }
  return Number.isSafeInteger(count) ? count : Infinity
}

export function shapesEqual(a: Shape, b: Shape): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}

const largestInt64 = 2n ** 63n - 1n

/** Every digit of a dimension: JavaScript rounds large numbers, and knows the largest of int64 as one more. */
const dimensionText = (size: number): string => {
  if (!Number.isInteger(size) || Number.isSafeInteger(size)) return String(size)
  const exact = BigInt(size)
  return String(exact > largestInt64 ? largestInt64 : exact)
}

/** `[1,16]`, as in Triton's messages. */
export const shapeText = (shape: Shape): string => `[${shape.map(dimensionText).join(',')}]`

/** The shape with dimensions of one behind it, where `expected` has such, or any, in these places: a value stands for a row of one. */
export function withOnes(shape: Shape, expected: Shape): Shape {
  if (shape.length >= expected.length) return shape
  const missing = expected.slice(shape.length)
  if (!missing.every((size) => size === 1 || size === -1)) return shape
  return [...shape, ...missing.map(() => 1)]
}
