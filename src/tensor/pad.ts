// Makes one dimension of a tensor longer, or cuts it back. Types of fixed size only: BYTES elements have each their own
// length.

import { elementBytes, type DataType } from './data-type.ts'
import { elementCount, type Shape } from './shape.ts'

/** The same shape with `size` in dimension `axis`. */
export const resized = (shape: Shape, axis: number, size: number): Shape =>
  shape.map((each, index) => (index === axis ? size : each))

/**
 * Writes a tensor into `target`, dimension `axis` filled up with `fill` (one element) to `size`; the bytes written.
 * 1 copy.
 */
export function padInto(
  target: Uint8Array,
  at: number,
  bytes: Uint8Array,
  shape: Shape,
  dataType: DataType,
  padding: { readonly axis: number; readonly size: number; readonly fill: Uint8Array },
): number {
  const { axis, size, fill } = padding
  const inner = elementCount(shape.slice(axis + 1)) * elementBytes[dataType]
  const from = (shape[axis] ?? 0) * inner
  const to = size * inner
  const outer = elementCount(shape.slice(0, axis))
  for (let i = 0; i < outer; i++) {
    const start = at + i * to
    target.set(bytes.subarray(i * from, (i + 1) * from), start)
    fillElements(target.subarray(start + from, start + to), fill)
  }
  return outer * to
}

/** Dimension `axis` cut back to `size`. No copy where what stays lies in a row, else 1. */
export function cutAxis(bytes: Uint8Array, shape: Shape, dataType: DataType, axis: number, size: number): Uint8Array {
  const inner = elementCount(shape.slice(axis + 1)) * elementBytes[dataType]
  const from = (shape[axis] ?? 0) * inner
  const to = size * inner
  const outer = elementCount(shape.slice(0, axis))
  if (outer === 1) return bytes.subarray(0, to)
  const target = Buffer.allocUnsafe(outer * to)
  for (let i = 0; i < outer; i++) target.set(bytes.subarray(i * from, i * from + to), i * to)
  return target
}

function fillElements(target: Uint8Array, fill: Uint8Array): void {
  if (target.byteLength === 0) return
  if (fill.every((byte) => byte === 0)) {
    target.fill(0)
    return
  }
  target.set(fill)
  // Each step doubles what is filled.
  for (let done = fill.byteLength; done < target.byteLength; done *= 2) target.copyWithin(done, 0, done)
}
