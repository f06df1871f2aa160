// How a picture becomes the size that a model takes, as Pillow and torchvision count pixels: which part of it, and pixels between those that it has.

import type { ImagePlan } from '../../protocol/upload/upload-plan.ts'

/** Red, green and blue. */
const channels = 3

/** One direction of a picture. Pixels from `from` to `to` are read, once the picture has `size` in this direction. */
type Direction = {
  readonly size: number
  readonly from: number
  readonly to: number
  /** Pixels of the border before the picture; those behind it are what is left. */
  readonly border: number
  /** Null: `size` is what the model takes. */
  readonly taps: Taps | null
}

/** What each new pixel is made of: `width` old ones from `first` on, with their weights. */
type Taps = {
  readonly count: number
  readonly width: number
  readonly first: Int32Array
  readonly weights: Float64Array
}

type Size = { readonly width: number; readonly height: number }
type Fitting = { readonly across: Direction; readonly down: Direction }

/** Pure. Where the picture becomes larger, libvips would put it half a pixel aside, so that is done here. */
export function fitPicture(size: Size, plan: ImagePlan): Fitting {
  const whole = wholeSize(size, plan)
  return {
    across: directionOf(size.width, whole.width, plan.width, plan.resample),
    down: directionOf(size.height, whole.height, plan.height, plan.resample),
  }
}

/** Of all of the picture, of which the model may take the middle. */
function wholeSize(size: Size, { width, height, shorterSide, fit }: ImagePlan): Size {
  if (shorterSide > 0) {
    const shorter = Math.min(size.width, size.height)
    const scaled = (side: number): number => Math.floor((shorterSide * side) / shorter)
    return { width: scaled(size.width), height: scaled(size.height) }
  }
  if (fit === 'stretch') return { width, height }
  const ratios = [width / size.width, height / size.height]
  const ratio = fit === 'crop' ? Math.max(...ratios) : Math.min(...ratios)
  const scaled = (side: number, wanted: number): number => {
    const length = Math.max(1, Math.round(side * ratio))
    return fit === 'crop' ? Math.max(wanted, length) : Math.min(wanted, length)
  }
  return { width: scaled(size.width, width), height: scaled(size.height, height) }
}

function directionOf(side: number, whole: number, wanted: number, kernel: ImagePlan['resample']): Direction {
  const start = half(whole - wanted)
  const [from, to] = [Math.max(0, start), Math.min(whole, start + wanted)]
  const border = Math.max(0, -start)
  if (whole <= side) return { size: whole, from, to, border, taps: null }
  const taps = tapsOf(side, whole, from, to, kernel)
  const begin = taps.first[0] as number
  const end = (taps.first[taps.count - 1] as number) + taps.width
  return {
    size: side,
    from: begin,
    to: end,
    border,
    taps: { ...taps, first: taps.first.map((first) => first - begin) },
  }
}

/** Half of a whole number; where it has no half, the even one of its neighbours. */
function half(value: number): number {
  const below = Math.floor(value / 2)
  return value % 2 === 0 ? below : below + (below & 1)
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x))

/** Weights by the distance in pixels, which is at most `support`. */
const kernels = {
  nearest: { support: 0.5, weight: () => 1 },
  linear: { support: 1, weight: (x: number) => 1 - x },
  cubic: {
    support: 2,
    weight: (x: number) => (x < 1 ? (1.5 * x - 2.5) * x * x + 1 : ((-0.5 * x + 2.5) * x - 4) * x + 2),
  },
  lanczos: { support: 3, weight: (x: number) => sinc(x) * sinc(x / 3) },
} as const

/** For the new pixels from `from` to `to`, of `whole` that stand for `side` old ones. */
function tapsOf(side: number, whole: number, from: number, to: number, resample: ImagePlan['resample']): Taps {
  const { support, weight } = kernels[resample]
  const count = to - from
  const width = Math.min(side, 2 * support)
  const first = new Int32Array(count)
  const weights = new Float64Array(count * width)
  for (let i = 0; i < count; i++) {
    const centre = ((from + i + 0.5) * side) / whole
    const begin = Math.min(side - width, Math.max(0, Math.floor(centre - support + 0.5)))
    first[i] = begin
    let sum = 0
    for (let tap = 0; tap < width; tap++) {
      const distance = Math.abs(begin + tap + 0.5 - centre)
      const value = distance <= support ? weight(distance) : 0
      weights[i * width + tap] = value
      sum += value
    }
    for (let tap = 0; tap < width; tap++) (weights[i * width + tap] as number) /= sum
  }
  return { count, width, first, weights }
}

/** Pixels that were read as `fitting` says become those that the model takes. */
export function finishPicture(read: Uint8Array, { across, down }: Fitting, plan: ImagePlan): Uint8Array {
  const readWidth = across.to - across.from
  const readHeight = down.to - down.from
  const rows = across.taps === null ? read : enlarged(read, across.taps, readHeight, readWidth * channels, channels)
  const width = across.taps?.count ?? readWidth
  const whole = down.taps === null ? rows : enlarged(rows, down.taps, 1, 0, width * channels)
  const height = down.taps?.count ?? readHeight
  if (width === plan.width && height === plan.height) return whole
  const bordered = new Uint8Array(plan.width * plan.height * channels)
  for (let row = 0; row < height; row++) {
    const line = whole.subarray(row * width * channels, (row + 1) * width * channels)
    bordered.set(line, ((row + down.border) * plan.width + across.border) * channels)
  }
  return bordered
}

/** New pixels for each of `lines` lines. `step` is what lies between two pixels, and all of it is computed for each of them. */
function enlarged(pixels: Uint8Array, taps: Taps, lines: number, lineStep: number, step: number): Uint8Array {
  const { count, width, first, weights } = taps
  const out = new Uint8ClampedArray(lines * count * step)
  const fill = width === 2 ? ofTwo : ofMany
  for (let line = 0; line < lines; line++) {
    for (let i = 0; i < count; i++) {
      const start = line * lineStep + (first[i] as number) * step
      fill(out, (line * count + i) * step, pixels, start, step, weights, i * width, width)
    }
  }
  return new Uint8Array(out.buffer)
}

type Fill = (
  out: Uint8ClampedArray,
  to: number,
  pixels: Uint8Array,
  from: number,
  step: number,
  weights: Float64Array,
  weight: number,
  width: number,
) => void

/** HOT. */
const ofMany: Fill = (out, to, pixels, from, step, weights, weight, width) => {
  for (let part = 0; part < step; part++) {
    let sum = 0
    for (let tap = 0; tap < width; tap++) {
      sum += (pixels[from + tap * step + part] as number) * (weights[weight + tap] as number)
    }
    out[to + part] = sum
  }
}

const one = 2 ** 16

/** What `linear` takes, in less than half of the time. HOT. */
const ofTwo: Fill = (out, to, pixels, from, step, weights, weight) => {
  const first = Math.round((weights[weight] as number) * one)
  const second = one - first
  for (let part = 0; part < step; part++) {
    const sum = (pixels[from + part] as number) * first + (pixels[from + step + part] as number) * second
    out[to + part] = (sum + one / 2) >> 16
  }
}

/** Cyan, magenta, yellow and black become red, green and blue, as Pillow, OpenCV and TensorFlow do it. In place, which halves the memory. */
export function rgbOfInks(inks: Uint8Array): Uint8Array {
  for (let from = 0, to = 0; from < inks.length; from += 4) {
    const light = 255 - (inks[from + 3] as number)
    for (let ink = 0; ink < channels; ink++) {
      inks[to++] = Math.round(((255 - (inks[from + ink] as number)) * light) / 255)
    }
  }
  return inks.subarray(0, (inks.length / 4) * channels)
}

/** The brightness by ITU-R BT.601, as Pillow, OpenCV and TensorFlow have it. */
export function greyOf(rgb: Uint8Array): Uint8Array {
  const grey = new Uint8Array(rgb.length / channels)
  for (let i = 0; i < grey.length; i++) {
    const [red, green, blue] = [rgb[i * 3] as number, rgb[i * 3 + 1] as number, rgb[i * 3 + 2] as number]
    grey[i] = (red * 19_595 + green * 38_470 + blue * 7471 + 32_768) >> 16
  }
  return grey
}
