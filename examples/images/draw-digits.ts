// Draws the sample images of this folder: `npx node examples/images/draw-digits.ts`. Each digit is a pen's way over the paper.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32, deflateSync } from 'node:zlib'

type Point = readonly [x: number, y: number]
type Stroke = readonly Point[]

/** Part of an ellipse as points; angles in degrees, clockwise from the right. */
const arc = (x: number, y: number, wide: number, high: number, from: number, to: number): Point[] =>
  Array.from({ length: 25 }, (_, step) => {
    const angle = ((from + ((to - from) * step) / 24) * Math.PI) / 180
    return [x + wide * Math.cos(angle), y + high * Math.sin(angle)]
  })

/** In a square of side 1, y downwards. */
const strokes: readonly (readonly Stroke[])[] = [
  [arc(0.5, 0.5, 0.24, 0.36, -90, 270)],
  [
    [
      [0.36, 0.3],
      [0.54, 0.14],
      [0.54, 0.86],
    ],
  ],
  [[...arc(0.48, 0.35, 0.23, 0.21, -170, 30), [0.28, 0.84], [0.76, 0.82]]],
  [
    [...arc(0.45, 0.31, 0.22, 0.17, -150, 80), [0.45, 0.48]],
    [[0.45, 0.48], ...arc(0.45, 0.67, 0.25, 0.19, -80, 150)],
  ],
  [
    [
      [0.52, 0.13],
      [0.24, 0.58],
      [0.78, 0.56],
    ],
    [
      [0.62, 0.38],
      [0.58, 0.87],
    ],
  ],
  [[[0.72, 0.15], [0.36, 0.15], [0.33, 0.46], ...arc(0.48, 0.64, 0.23, 0.22, -110, 150)]],
  [[[0.6, 0.13], ...arc(0.56, 0.6, 0.28, 0.44, -125, -190), ...arc(0.49, 0.66, 0.2, 0.2, 180, 540)]],
  [
    [
      [0.25, 0.17],
      [0.74, 0.16],
      [0.44, 0.86],
    ],
    [
      [0.38, 0.52],
      [0.68, 0.5],
    ],
  ],
  [arc(0.54, 0.31, 0.17, 0.17, 110, 470), arc(0.47, 0.67, 0.17, 0.19, -70, 290)],
  [[...arc(0.48, 0.34, 0.2, 0.2, 0, -360), [0.67, 0.4], [0.62, 0.86]]],
]

const names = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']

const distance = ([px, py]: Point, [ax, ay]: Point, [bx, by]: Point): number => {
  const [dx, dy] = [bx - ax, by - ay]
  const along = Math.max(0, Math.min(1, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1)))
  return Math.hypot(px - ax - along * dx, py - ay - along * dy)
}

/** Grey, black ink on white paper, soft edges. */
export const drawDigit = (digit: number, side: number, penWidth: number): Uint8Array => {
  const pixels = new Uint8Array(side * side)
  for (let index = 0; index < pixels.length; index++) {
    const point: Point = [((index % side) + 0.5) / side, (Math.floor(index / side) + 0.5) / side]
    let nearest = 1
    for (const stroke of strokes[digit] ?? []) {
      for (const [step, end] of stroke.entries()) {
        const start = stroke[step - 1]
        if (start !== undefined) nearest = Math.min(nearest, distance(point, start, end))
      }
    }
    const ink = Math.max(0, Math.min(1, (penWidth / 2 - nearest) * side + 0.5))
    pixels[index] = Math.round(255 * (1 - ink))
  }
  return pixels
}

const chunk = (name: string, content: Buffer): Buffer => {
  const whole = Buffer.alloc(content.length + 12)
  whole.writeUInt32BE(content.length, 0)
  whole.write(name, 4, 'latin1')
  content.copy(whole, 8)
  whole.writeUInt32BE(crc32(whole.subarray(4, 8 + content.length)), 8 + content.length)
  return whole
}

/** An 8-bit grey PNG file, unfiltered. */
export const encodeGreyPng = (pixels: Uint8Array, width: number, height: number): Buffer => {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header[8] = 8
  const rows = Buffer.alloc(height * (width + 1))
  for (let row = 0; row < height; row++)
    rows.set(pixels.subarray(row * width, (row + 1) * width), row * (width + 1) + 1)
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  const parts = [signature, chunk('IHDR', header), chunk('IDAT', deflateSync(rows, { level: 9 }))]
  return Buffer.concat([...parts, chunk('IEND', Buffer.alloc(0))])
}

if (import.meta.main) {
  const side = 64
  for (const [digit, name] of names.entries()) {
    const file = join(import.meta.dirname, `${name}.png`)
    writeFileSync(file, encodeGreyPng(drawDigit(digit, side, 0.09), side, side))
  }
}
