// From a grey image of any size to what the digits model was trained on: 8x8 cells, 0 = paper, 16 = full of ink, the
// digit as high as the square and centred in it.

import type { GreyImage } from './png.ts'

const cellsPerSide = 8
const fullCell = 16
/** Ink fainter than this share of the darkest is noise: it does not count for where the digit is. */
const visibleInk = 0.3
/** Of 255. A difference below it between paper and ink is no drawing. */
const leastContrast = 24
/**
 * In the training images about this many of the 64 cells are full. A pen thinner than a cell fills none: its cells are
 * raised until this many are.
 */
const fullCells = 10

type Box = { readonly left: number; readonly top: number; readonly width: number; readonly height: number }

export const toDigitPixels = (image: GreyImage): Float32Array => {
  const ink = inkOf(image)
  const square = squareAround(boxOf(ink, image))
  const cells = new Float32Array(cellsPerSide * cellsPerSide)
  for (let row = 0; row < cellsPerSide; row++) {
    for (let column = 0; column < cellsPerSide; column++) {
      cells[row * cellsPerSide + column] = meanInk(ink, image, {
        left: square.left + (column * square.width) / cellsPerSide,
        top: square.top + (row * square.height) / cellsPerSide,
        width: square.width / cellsPerSide,
        height: square.height / cellsPerSide,
      })
    }
  }
  const full = cells.toSorted().at(-fullCells) ?? 0
  const darkest = cells.reduce((most, cell) => Math.max(most, cell), 0)
  const gain = fullCell / (full > 0 ? full : darkest)
  return cells.map((cell) => Math.min(fullCell, cell * gain))
}

/** 0 to 1 per pixel. What the border shows is paper, so that white on black and black on white are the same. */
const inkOf = ({ width, height, pixels }: GreyImage): Float32Array => {
  const borderShades = new Uint32Array(256)
  const count = (index: number): void => {
    const shade = pixels[index] ?? 0
    borderShades[shade] = (borderShades[shade] ?? 0) + 1
  }
  for (let column = 0; column < width; column++) {
    count(column)
    count((height - 1) * width + column)
  }
  for (let row = 0; row < height; row++) {
    count(row * width)
    count(row * width + width - 1)
  }
  const paper = medianOf(borderShades)
  const contrast = pixels.reduce((most, pixel) => Math.max(most, Math.abs(pixel - paper)), 0)
  if (contrast < leastContrast) {
    throw new Error(`there is no digit to be seen: nothing in the ${width}x${height} image stands out from its border`)
  }
  return Float32Array.from(pixels, (pixel) => Math.abs(pixel - paper) / contrast)
}

const medianOf = (counts: Uint32Array): number => {
  let left = counts.reduce((sum, count) => sum + count, 0) / 2
  return counts.findIndex((count) => (left -= count) <= 0)
}

/** The smallest box that holds all the visible ink. */
const boxOf = (ink: Float32Array, { width, height }: GreyImage): Box => {
  let [left, top, right, bottom] = [width, height, 0, 0]
  for (let row = 0, index = 0; row < height; row++) {
    for (let column = 0; column < width; column++, index++) {
      if ((ink[index] ?? 0) < visibleInk) continue
      left = Math.min(left, column)
      right = Math.max(right, column + 1)
      top = Math.min(top, row)
      bottom = row + 1
    }
  }
  return { left, top, width: right - left, height: bottom - top }
}

/** As high as the box and as wide as high, unless the box is wider; the box in its middle. May reach past the image. */
const squareAround = (box: Box): Box => {
  const side = Math.max(box.width, box.height)
  return {
    left: box.left - (side - box.width) / 2,
    top: box.top - (side - box.height) / 2,
    width: side,
    height: side,
  }
}

/** The mean over a box whose sides need not fall on pixels. Past the image there is paper. */
const meanInk = (ink: Float32Array, { width, height }: GreyImage, box: Box): number => {
  let sum = 0
  const [right, bottom] = [box.left + box.width, box.top + box.height]
  for (let row = Math.max(0, Math.floor(box.top)); row < Math.min(height, bottom); row++) {
    const high = Math.min(row + 1, bottom) - Math.max(row, box.top)
    for (let column = Math.max(0, Math.floor(box.left)); column < Math.min(width, right); column++) {
      const wide = Math.min(column + 1, right) - Math.max(column, box.left)
      sum += (ink[row * width + column] ?? 0) * high * wide
    }
  }
  return sum / (box.width * box.height)
}
