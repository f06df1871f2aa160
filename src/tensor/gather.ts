// The bytes of several requests as one tensor along the first dimension, and back.

import { elementBytes, type DataType } from './data-type.ts'
import type { Shape } from './shape.ts'
import { elementCount } from './shape.ts'

/** All parts one after the other: in a fresh buffer (1 copy), or as a view where they already lie so, as padded inputs do. */
export function gatherBytes(parts: readonly Uint8Array[]): Uint8Array {
  let total = 0
  let isRow = true
  const first = parts[0] ?? new Uint8Array(0)
  for (const part of parts) {
    if (part.buffer !== first.buffer || part.byteOffset !== first.byteOffset + total) isRow = false
    total += part.byteLength
  }
  if (isRow) return new Uint8Array(first.buffer, first.byteOffset, total)
  const target = Buffer.allocUnsafe(total)
  let at = 0
  for (const part of parts) {
    target.set(part, at)
    at += part.byteLength
  }
  return target
}

/**
 * Views on the rows of a tensor, `rowCounts[i]` rows each. No copies. Null when the first dimension is not the sum of
 * the counts or the bytes do not fit the shape.
 */
export function splitRows(
  bytes: Uint8Array,
  dataType: DataType,
  shape: Shape,
  rowCounts: readonly number[],
): Uint8Array[] | null {
  let rows = 0
  for (const count of rowCounts) rows += count
  if (shape.length === 0 || shape[0] !== rows) return null
  const rowElements = elementCount(shape.slice(1))
  if (dataType === 'BYTES') return splitFrames(bytes, rowCounts, rowElements)
  const rowBytes = rowElements * elementBytes[dataType]
  if (rowBytes * rows !== bytes.byteLength) return null
  let at = 0
  return rowCounts.map((count) => bytes.subarray(at, (at += count * rowBytes)))
}

/** Views on a tensor's elements, `counts[i]` of them each. No copies. Null when there are more or fewer elements. */
export function splitElements(bytes: Uint8Array, dataType: DataType, counts: readonly number[]): Uint8Array[] | null {
  if (dataType === 'BYTES') return splitFrames(bytes, counts, 1)
  const size = elementBytes[dataType]
  let at = 0
  const parts = counts.map((count) => bytes.subarray(at, (at += count * size)))
  return at === bytes.byteLength ? parts : null
}

/** BYTES elements have each their own length, so the frames are walked. */
function splitFrames(bytes: Uint8Array, rowCounts: readonly number[], rowElements: number): Uint8Array[] | null {
  const frames = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const parts: Uint8Array[] = []
  let at = 0
  for (const count of rowCounts) {
    const begin = at
    for (let i = 0; i < count * rowElements; i++) {
      if (at + 4 > bytes.byteLength) return null
      at += 4 + frames.getUint32(at, true)
    }
    if (at > bytes.byteLength) return null
    parts.push(bytes.subarray(begin, at))
  }
  return at === bytes.byteLength ? parts : null
}
