// Pictures and drawings → the numbers of a tensor. Pure functions over pixels.

import type { PixelLayout } from './input-kinds.ts'

/** RGBA, row by row, as a canvas has it. */
type Pixels = { readonly width: number; readonly height: number; readonly data: Uint8ClampedArray }

type PixelScale = { readonly scale: number; readonly mean: readonly number[]; readonly std: readonly number[] }

export const plainScale: PixelScale = { scale: 1, mean: [0, 0, 0, 0], std: [1, 1, 1, 1] }

/** (value × scale − mean) ÷ std of each channel, in the order of the layout. */
export function tensorOfPixels({ width, height, data }: Pixels, layout: PixelLayout, scale: PixelScale): number[] {
  const { channels, order } = layout
  const count = width * height
  const values = Array.from({ length: count * channels }, () => 0)
  for (let i = 0; i < count; i++) {
    const [red = 0, green = 0, blue = 0, alpha = 255] = data.subarray(i * 4, i * 4 + 4)
    const seen = channels === 1 ? [0.299 * red + 0.587 * green + 0.114 * blue] : [red, green, blue, alpha]
    for (let c = 0; c < channels; c++) {
      const value = ((seen[c] ?? 0) * scale.scale - (scale.mean[c] ?? 0)) / (scale.std[c] ?? 1)
      values[order === 'CHW' ? c * count + i : i * channels + c] = value
    }
  }
  return values
}

type Box = { readonly left: number; readonly top: number; readonly side: number }

const visibleInk = 0.3
/** In sets of handwriting about this share of the cells is full. A thin pen fills none, so its cells are raised. */
const fullShare = 10 / 64
/** From this size on such sets leave a frame free. */
const framedSide = 20
const frameShare = 0.4

/** Ink per pixel, 0 to 1 → cells of a small square, the drawing centred in it and as large as it fits. */
export function cellsOfInk(ink: Float32Array, side: number, cells: number, most: number): number[] {
  const box = boxAround(ink, side)
  if (box === null) return Array.from({ length: cells * cells }, () => 0)
  const grown = cells >= framedSide ? 1 + frameShare : 1
  const square = box.side * grown
  const [left, top] = [box.left - (square - box.side) / 2, box.top - (square - box.side) / 2]
  const means = Array.from({ length: cells * cells }, (_, i) =>
    meanInk(
      ink,
      side,
      left + ((i % cells) * square) / cells,
      top + (Math.floor(i / cells) * square) / cells,
      square / cells,
    ),
  )
  const full = means.toSorted((a, b) => b - a)[Math.max(0, Math.round(fullShare * cells * cells) - 1)] ?? 0
  const gain = most / Math.max(full, Math.max(...means) / 4)
  return means.map((mean) => Math.min(most, mean * gain))
}

/** A square round all visible ink; null when there is none. */
function boxAround(ink: Float32Array, side: number): Box | null {
  let [left, top, right, bottom] = [side, side, 0, 0]
  for (let i = 0; i < ink.length; i++) {
    if ((ink[i] ?? 0) < visibleInk) continue
    left = Math.min(left, i % side)
    right = Math.max(right, (i % side) + 1)
    top = Math.min(top, Math.floor(i / side))
    bottom = Math.floor(i / side) + 1
  }
  if (right <= left) return null
  const [width, height] = [right - left, bottom - top]
  const longer = Math.max(width, height)
  return { left: left - (longer - width) / 2, top: top - (longer - height) / 2, side: longer }
}

function meanInk(ink: Float32Array, side: number, left: number, top: number, size: number): number {
  let sum = 0
  for (let row = Math.max(0, Math.floor(top)); row < Math.min(side, top + size); row++) {
    const high = Math.min(row + 1, top + size) - Math.max(row, top)
    for (let column = Math.max(0, Math.floor(left)); column < Math.min(side, left + size); column++) {
      const wide = Math.min(column + 1, left + size) - Math.max(column, left)
      sum += (ink[row * side + column] ?? 0) * high * wide
    }
  }
  return sum / (size * size)
}

/** 8×8 is the size of the classic set of digits, which counts ink from 0 to 16. */
export const inkOf = (cells: number, dataType: string): number => (dataType === 'UINT8' ? 255 : cells === 8 ? 16 : 1)
