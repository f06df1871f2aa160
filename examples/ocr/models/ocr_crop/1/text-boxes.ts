// Where the lines of text are: connected parts of the detection network's map, grown to the size of the text.

export type Box = { readonly left: number; readonly top: number; readonly right: number; readonly bottom: number }

/** A pixel above it is text. */
const pixelThreshold = 0.3
/** A box whose pixels are less sure than that on average is none. */
const boxThreshold = 0.5
/** The network marks the heart of a line; this much more of its area belongs to it. */
const growth = 1.6
const smallestSide = 3

/** In the pixels of the map, in reading order. */
export function textBoxes(map: Float32Array, width: number, height: number): Box[] {
  const isSeen = new Uint8Array(map.length)
  const boxes: Box[] = []
  for (let start = 0; start < map.length; start++) {
    if (isSeen[start] === 1 || (map[start] ?? 0) < pixelThreshold) continue
    const box = grow(flood(map, isSeen, width, start), map, width, height)
    if (box !== null) boxes.push(box)
  }
  return readingOrder(boxes)
}

function flood(map: Float32Array, isSeen: Uint8Array, width: number, start: number): Box {
  let [left, right] = [start % width, start % width]
  let [top, bottom] = [Math.floor(start / width), Math.floor(start / width)]
  const open = [start]
  isSeen[start] = 1
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const x = at % width
    const y = Math.floor(at / width)
    left = Math.min(left, x)
    right = Math.max(right, x)
    top = Math.min(top, y)
    bottom = Math.max(bottom, y)
    for (const next of [at - width, at + width, x > 0 ? at - 1 : -1, x < width - 1 ? at + 1 : -1]) {
      if (next < 0 || next >= map.length || isSeen[next] === 1 || (map[next] ?? 0) < pixelThreshold) continue
      isSeen[next] = 1
      open.push(next)
    }
  }
  return { left, top, right: right + 1, bottom: bottom + 1 }
}

function grow({ left, top, right, bottom }: Box, map: Float32Array, width: number, height: number): Box | null {
  const [w, h] = [right - left, bottom - top]
  if (Math.min(w, h) < smallestSide) return null
  let sum = 0
  for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) sum += map[y * width + x] ?? 0
  if (sum / (w * h) < boxThreshold) return null
  const margin = (w * h * growth) / (2 * (w + h))
  return {
    left: Math.max(0, left - margin),
    top: Math.max(0, top - margin),
    right: Math.min(width, right + margin),
    bottom: Math.min(height, bottom + margin),
  }
}

/** Line by line, each from left to right: boxes that overlap in height by more than half are of one line. */
function readingOrder(boxes: readonly Box[]): Box[] {
  const lines: Box[][] = []
  for (const box of boxes.toSorted((a, b) => a.top - b.top)) {
    const line = lines.find(([first]) => first !== undefined && overlap(first, box) > 0.5)
    if (line === undefined) lines.push([box])
    else line.push(box)
  }
  return lines.flatMap((line) => line.toSorted((a, b) => a.left - b.left))
}

function overlap(a: Box, b: Box): number {
  const common = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
  return common / Math.min(a.bottom - a.top, b.bottom - b.top)
}
