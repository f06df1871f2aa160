// Turns the lines round that stand on their heads.

import { tensor, type ModelRequest } from 'galatea/model'

export const config = {
  input: [
    { name: 'LINES', dataType: 'FP32', dims: [-1, 3, 48, -1] },
    { name: 'ANGLES', dataType: 'FP32', dims: [-1, 2] },
  ],
  output: [{ name: 'UPRIGHT', dataType: 'FP32', dims: [-1, 3, 48, -1] }],
}

/** Only when the network is this sure. */
const threshold = 0.9

export function infer(request: ModelRequest) {
  const { shape } = request.input('LINES')
  const [count = 0, , height = 0, width = 0] = shape
  const values = Float32Array.from(request.input('LINES').asFloat32())
  const angles = request.input('ANGLES').asFloat32()
  for (let line = 0; line < count; line++) {
    if ((angles[2 * line + 1] ?? 0) < threshold) continue
    const strip = values.subarray(line * 3 * height * width, (line + 1) * 3 * height * width)
    const used = usedWidth(strip, height, width)
    for (let c = 0; c < 3; c++) turn(strip.subarray(c * height * width, (c + 1) * height * width), height, width, used)
  }
  return [tensor('UPRIGHT', 'FP32', [...shape], values)]
}

/** What follows is filling, all 0, and stays at the end. */
function usedWidth(strip: Float32Array, height: number, width: number): number {
  for (let x = width; x > 0; x--) for (let y = 0; y < height; y++) if (strip[y * width + x - 1] !== 0) return x
  return 0
}

function turn(plane: Float32Array, height: number, width: number, used: number): void {
  for (let y = 0; y < height / 2; y++) {
    const upper = plane.slice(y * width, y * width + used)
    const lower = plane.slice((height - 1 - y) * width, (height - 1 - y) * width + used)
    plane.set(lower.toReversed(), y * width)
    plane.set(upper.toReversed(), (height - 1 - y) * width)
  }
}
