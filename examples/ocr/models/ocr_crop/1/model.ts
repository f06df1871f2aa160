// The detection's map and the picture → one strip of pixels per line of text, as the other two networks want them.

import { tensor, type ModelRequest } from 'galatea/model'
import { textBoxes, type Box } from './text-boxes.ts'

export const config = {
  input: [
    { name: 'PIXELS', dataType: 'UINT8', dims: [-1, -1] },
    { name: 'MAP', dataType: 'FP32', dims: [-1, 1, -1, -1] },
  ],
  output: [
    { name: 'BOXES', dataType: 'INT32', dims: [-1, 4] },
    { name: 'LINES', dataType: 'FP32', dims: [-1, 3, 48, -1] },
    { name: 'THUMBS', dataType: 'FP32', dims: [-1, 3, 48, 192] },
  ],
}

const stripHeight = 48
const thumbWidth = 192
const shortestWidth = 320
/** A picture of nothing but text is not to fill the memory. */
const mostLines = 256
const longestWidth = 2048

export function infer(request: ModelRequest) {
  const [height = 0, width = 0] = request.input('PIXELS').shape
  const [, , mapHeight = 0, mapWidth = 0] = request.input('MAP').shape
  const image = { pixels: request.input('PIXELS').asUint8(), width, height }
  const scaled = textBoxes(request.input('MAP').asFloat32(), mapWidth, mapHeight).slice(0, mostLines)
  const boxes = scaled.map(({ left, top, right, bottom }) => ({
    left: Math.floor((left * width) / mapWidth),
    top: Math.floor((top * height) / mapHeight),
    right: Math.ceil((right * width) / mapWidth),
    bottom: Math.ceil((bottom * height) / mapHeight),
  }))
  // Networks take no empty batches: where there is no text there is one empty strip, and no box for it.
  const strips = boxes.length === 0 ? [{ left: 0, top: 0, right: 1, bottom: 1 }] : boxes
  const widths = strips.map((box) => widthOf(box))
  const lineWidth = Math.max(shortestWidth, ...widths)
  const lines = new Float32Array(strips.length * 3 * stripHeight * lineWidth)
  const thumbs = new Float32Array(strips.length * 3 * stripHeight * thumbWidth)
  if (boxes.length > 0) {
    for (const [index, box] of strips.entries()) {
      const natural = widths[index] ?? 1
      cut(image, box, { values: lines, index, width: lineWidth, used: natural })
      cut(image, box, { values: thumbs, index, width: thumbWidth, used: Math.min(natural, thumbWidth) })
    }
  }
  const corners = boxes.flatMap(({ left, top, right, bottom }) => [left, top, right, bottom])
  return [
    tensor('BOXES', 'INT32', [boxes.length, 4], corners),
    tensor('LINES', 'FP32', [strips.length, 3, stripHeight, lineWidth], lines),
    tensor('THUMBS', 'FP32', [strips.length, 3, stripHeight, thumbWidth], thumbs),
  ]
}

const widthOf = ({ left, top, right, bottom }: Box): number =>
  Math.min(longestWidth, Math.max(1, Math.ceil((stripHeight * (right - left)) / Math.max(1, bottom - top))))

type Image = { readonly pixels: Uint8Array; readonly width: number; readonly height: number }
type Strip = { readonly values: Float32Array; readonly index: number; readonly width: number; readonly used: number }

/** Scales the box to the strip's height, between neighbouring pixels; what is left of the width stays 0. */
function cut(image: Image, box: Box, { values, index, width, used }: Strip): void {
  const size = stripHeight * width
  for (let y = 0; y < stripHeight; y++) {
    const fromY = box.top + ((y + 0.5) * (box.bottom - box.top)) / stripHeight - 0.5
    for (let x = 0; x < used; x++) {
      const fromX = box.left + ((x + 0.5) * (box.right - box.left)) / used - 0.5
      const value = greyAt(image, fromX, fromY) / 127.5 - 1
      for (let c = 0; c < 3; c++) values[(index * 3 + c) * size + y * width + x] = value
    }
  }
}

function greyAt({ pixels, width, height }: Image, x: number, y: number): number {
  const left = Math.min(Math.max(Math.floor(x), 0), width - 1)
  const top = Math.min(Math.max(Math.floor(y), 0), height - 1)
  const right = Math.min(left + 1, width - 1)
  const bottom = Math.min(top + 1, height - 1)
  const [fx, fy] = [Math.min(Math.max(x - left, 0), 1), Math.min(Math.max(y - top, 0), 1)]
  const at = (px: number, py: number): number => pixels[py * width + px] ?? 0
  const above = at(left, top) * (1 - fx) + at(right, top) * fx
  const below = at(left, bottom) * (1 - fx) + at(right, bottom) * fx
  return above * (1 - fy) + below * fy
}
