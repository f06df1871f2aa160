// In which forms an output can be shown, from its type, shape and first bytes. Pure functions.

import type { OutputTensor } from '../client/web.ts'

export type OutputForm = 'bars' | 'text' | 'image' | 'sound' | 'table'

type Shown = Pick<OutputTensor, 'dataType' | 'shape' | 'bytes'>

/** How the pixels of a picture lie in an output. */
type PictureLayout = {
  readonly height: number
  readonly width: number
  readonly channels: 1 | 3 | 4
  readonly isPlanar: boolean
}

const mostScores = 1000
const leastSamples = 2048
const leastSide = 8
/** A canvas of more pixels helps nobody. */
const mostPixels = 4096 * 4096

/** The form that says most comes first. */
export function formsOf(output: Shown): OutputForm[] {
  if (output.dataType === 'BYTES') {
    const media = mediaOf(firstElement(output.bytes))
    return media === null ? ['text'] : [media.form, 'text']
  }
  const forms: OutputForm[] = []
  const long = output.shape.filter((size) => size !== 1)
  const count = output.shape.reduce((product, size) => product * size, 1)
  const isReal = output.dataType.startsWith('FP') || output.dataType === 'BF16'
  if (isReal && long.length === 1 && count > 1 && count <= mostScores) forms.push('bars')
  if (pictureLayout(output) !== null) forms.push('image')
  if (['FP32', 'INT16'].includes(output.dataType) && long.length === 1 && count >= leastSamples) forms.push('sound')
  return [...forms, 'table']
}

/** The first picture of a batch. Null: the shape is not one of a picture. */
export function pictureLayout({ dataType, shape }: Shown): PictureLayout | null {
  if (!['UINT8', 'FP32', 'FP16', 'BF16', 'FP64'].includes(dataType)) return null
  const sizes = shape.length === 4 ? shape.slice(1) : shape
  if (sizes.length !== 3) return null
  const [a = 0, b = 0, c = 0] = sizes
  const isSide = (size: number): boolean => size >= leastSide
  const fits = (height: number, width: number): boolean =>
    isSide(height) && isSide(width) && height * width <= mostPixels
  if (isChannels(c) && fits(a, b)) return { height: a, width: b, channels: c, isPlanar: false }
  if (isChannels(a) && fits(b, c)) return { height: b, width: c, channels: a, isPlanar: true }
  return null
}

const isChannels = (size: number): size is 1 | 3 | 4 => size === 1 || size === 3 || size === 4

/** RGBA of the first picture. Values from 0 to 1, from -1 to 1 and from 0 to 255 are told apart by their range. */
export function rgbaOf(
  values: ArrayLike<number>,
  { height, width, channels, isPlanar }: PictureLayout,
): Uint8ClampedArray<ArrayBuffer> {
  const count = height * width
  const [low, high] = rangeOf(values, count * channels)
  const [offset, scale] = high > 1.5 || low < -1.5 ? [0, 1] : low < 0 ? [1, 127.5] : [0, 255]
  const pixels = new Uint8ClampedArray(count * 4)
  for (let i = 0; i < count; i++) {
    for (let c = 0; c < 4; c++) {
      const channel = channels === 1 && c < 3 ? 0 : c
      const value = values[isPlanar ? channel * count + i : i * channels + channel] ?? 0
      pixels[i * 4 + c] = c === 3 && channels !== 4 ? 255 : (value + offset) * scale
    }
  }
  return pixels
}

function rangeOf(values: ArrayLike<number>, count: number): [low: number, high: number] {
  let [low, high] = [Infinity, -Infinity]
  for (let i = 0; i < Math.min(count, values.length); i++) {
    const value = values[i] ?? 0
    if (value < low) low = value
    if (value > high) high = value
  }
  return [low, high]
}

/** Samples of one channel as a WAV file with 16 bits. FP32 goes from -1 to 1. */
export function wavOf(samples: ArrayLike<number>, rate: number, isWhole: boolean): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(44 + samples.length * 2)
  const view = new DataView(bytes.buffer)
  const text = (at: number, word: string): void => {
    for (let i = 0; i < word.length; i++) bytes[at + i] = word.charCodeAt(i)
  }
  text(0, 'RIFF')
  view.setUint32(4, 36 + samples.length * 2, true)
  text(8, 'WAVEfmt ')
  view.setUint32(16, 16, true)
  view.setUint16(20, 1, true)
  view.setUint16(22, 1, true)
  view.setUint32(24, rate, true)
  view.setUint32(28, rate * 2, true)
  view.setUint16(32, 2, true)
  view.setUint16(34, 16, true)
  text(36, 'data')
  view.setUint32(40, samples.length * 2, true)
  for (let i = 0; i < samples.length; i++) {
    const value = (samples[i] ?? 0) * (isWhole ? 1 : 32_767)
    view.setInt16(44 + i * 2, Math.max(-32_768, Math.min(32_767, Math.round(value))), true)
  }
  return bytes
}

type Media = { readonly form: 'image' | 'sound'; readonly type: string }

const starts: readonly (readonly [at: number, text: string, media: Media])[] = [
  [0, '\u0089PNG', { form: 'image', type: 'image/png' }],
  [0, '\u00FF\u00D8\u00FF', { form: 'image', type: 'image/jpeg' }],
  [0, 'GIF8', { form: 'image', type: 'image/gif' }],
  [8, 'WEBP', { form: 'image', type: 'image/webp' }],
  [8, 'WAVE', { form: 'sound', type: 'audio/wav' }],
  [0, 'OggS', { form: 'sound', type: 'audio/ogg' }],
  [0, 'fLaC', { form: 'sound', type: 'audio/flac' }],
  [0, 'ID3', { form: 'sound', type: 'audio/mpeg' }],
]

/** What a file is, by its first bytes; null: neither picture nor sound. SVG is text here: it could hold a script. */
export function mediaOf(file: Uint8Array): Media | null {
  const head = String.fromCharCode(...file.subarray(0, 16))
  return starts.find(([at, text]) => head.startsWith(text, at))?.[2] ?? null
}

/** The first element of a tensor of type BYTES: four bytes of length, then the element. */
export function firstElement(bytes: Uint8Array): Uint8Array {
  if (bytes.length < 4) return new Uint8Array()
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
  return bytes.subarray(4, 4 + length)
}
