// The PNG reader of the digit_image example, alone: an encoder that knows every form writes, the reader reads.

import assert from 'node:assert/strict'
import test from 'node:test'
import { crc32, deflateSync } from 'node:zlib'
import * as fc from 'fast-check'
import { decodePng, maxPixels } from '../../examples/models/digit_image/1/png.ts'

type Form = { readonly colourType: number; readonly bitDepth: number; readonly channels: number }

const forms: readonly Form[] = [
  ...[1, 2, 4, 8, 16].map((bitDepth) => ({ colourType: 0, bitDepth, channels: 1 })),
  ...[8, 16].map((bitDepth) => ({ colourType: 2, bitDepth, channels: 3 })),
  ...[1, 2, 4, 8].map((bitDepth) => ({ colourType: 3, bitDepth, channels: 1 })),
  ...[8, 16].map((bitDepth) => ({ colourType: 4, bitDepth, channels: 2 })),
  ...[8, 16].map((bitDepth) => ({ colourType: 6, bitDepth, channels: 4 })),
]

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

const chunk = (name: string, content: Uint8Array): Buffer => {
  const named = Buffer.concat([Buffer.from(name, 'latin1'), content])
  const frame = Buffer.alloc(named.length + 8)
  frame.writeUInt32BE(content.length, 0)
  frame.set(named, 4)
  frame.writeUInt32BE(crc32(named), 4 + named.length)
  return frame
}

const headerOf = (width: number, height: number, form: Form, interlace = 0): Buffer => {
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, form.bitDepth, form.colourType, 0, 0, interlace])
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  return header
}

const paeth = (left: number, up: number, upLeft: number): number => {
  const candidates = [left, up, upLeft]
  const distances = candidates.map((value) => Math.abs(left + up - upLeft - value))
  return candidates[distances.indexOf(Math.min(...distances))] ?? 0
}

/** Packed rows with their filters applied, as the specification describes it: from unfiltered neighbours. */
const filterRows = (packed: Uint8Array, rowBytes: number, step: number, filters: readonly number[]): Buffer => {
  const rows = filters.map((filter, row) => {
    const at = (line: number, index: number): number =>
      line < 0 || index < 0 ? 0 : (packed[line * rowBytes + index] ?? 0)
    return Buffer.from([
      filter,
      ...Array.from({ length: rowBytes }, (_, index) => {
        const [left, up, upLeft] = [at(row, index - step), at(row - 1, index), at(row - 1, index - step)]
        const guesses = [0, left, up, Math.floor((left + up) / 2), paeth(left, up, upLeft)]
        return (at(row, index) - (guesses[filter] ?? 0)) & 255
      }),
    ])
  })
  return Buffer.concat(rows)
}

/** Samples of `bitDepth` bits, row by row, each row starting at a byte. */
const pack = (samples: readonly number[], perRow: number, bitDepth: number): Uint8Array => {
  const rowBytes = Math.ceil((perRow * bitDepth) / 8)
  const packed = new Uint8Array((samples.length / perRow) * rowBytes)
  for (const [index, sample] of samples.entries()) {
    const [row, column] = [Math.floor(index / perRow), index % perRow]
    const bit = column * bitDepth
    const byte = row * rowBytes + (bit >> 3)
    if (bitDepth === 16) packed.set([sample >> 8, sample & 255], byte)
    else packed[byte] = (packed[byte] ?? 0) | (sample << (8 - bitDepth - (bit & 7)))
  }
  return packed
}

const palette = Uint8Array.from({ length: 768 }, (_, index) => (index * 37) & 255)
const paletteAlpha = Uint8Array.from({ length: 100 }, (_, index) => 255 - index)

type Encoded = { readonly width: number; readonly samples: readonly number[]; readonly filters: readonly number[] }

const encodePng = (image: Encoded, form: Form, dataChunks = 1): Buffer => {
  const height = image.filters.length
  const perRow = image.width * form.channels
  const packed = pack(image.samples, perRow, form.bitDepth)
  const step = Math.max(1, (form.channels * form.bitDepth) / 8)
  const data = deflateSync(filterRows(packed, packed.length / height, step, image.filters))
  const size = Math.ceil(data.length / dataChunks)
  return Buffer.concat([
    signature,
    chunk('IHDR', headerOf(image.width, height, form)),
    chunk('tEXt', Buffer.from('Comment\0made by a test')),
    ...(form.colourType === 3 ? [chunk('PLTE', palette), chunk('tRNS', paletteAlpha)] : []),
    ...Array.from({ length: dataChunks }, (_, index) => chunk('IDAT', data.subarray(index * size, (index + 1) * size))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** What a viewer shows of one pixel on white paper, as grey. */
const greyOf = (samples: readonly number[], form: Form): number => {
  const [a = 0, b = 0, c = 0, d = 0] = samples.map((sample) => (form.bitDepth === 16 ? sample >> 8 : sample))
  const luminance = (red: number, green: number, blue: number): number => 0.299 * red + 0.587 * green + 0.114 * blue
  const onWhite = (grey: number, alpha: number): number => (grey * alpha + 255 * (255 - alpha)) / 255
  const of = (index: number): number => palette[index] ?? 0
  if (form.colourType === 0) return (a * 255) / (form.bitDepth < 8 ? 2 ** form.bitDepth - 1 : 255)
  if (form.colourType === 2) return luminance(a, b, c)
  if (form.colourType === 3) return onWhite(luminance(of(3 * a), of(3 * a + 1), of(3 * a + 2)), paletteAlpha[a] ?? 255)
  return form.colourType === 4 ? onWhite(a, b) : onWhite(luminance(a, b, c), d)
}

for (const form of forms) {
  test(`colour type ${form.colourType} with ${form.bitDepth} bits is read under every filter`, () => {
    const images = fc
      .record({ width: fc.integer({ min: 1, max: 19 }), filters: fc.array(fc.nat(4), { minLength: 1, maxLength: 9 }) })
      .chain(({ width, filters }) =>
        fc.record({
          width: fc.constant(width),
          filters: fc.constant(filters),
          samples: fc.array(fc.nat(2 ** form.bitDepth - 1), {
            minLength: width * filters.length * form.channels,
            maxLength: width * filters.length * form.channels,
          }),
        }),
      )
    fc.assert(
      fc.property(images, fc.integer({ min: 1, max: 3 }), (image, dataChunks) => {
        const decoded = decodePng(encodePng(image, form, dataChunks))
        assert.deepEqual([decoded.width, decoded.height], [image.width, image.filters.length])
        for (const [index, grey] of decoded.pixels.entries()) {
          const expected = greyOf(image.samples.slice(index * form.channels, (index + 1) * form.channels), form)
          assert.ok(Math.abs(grey - expected) <= 1, `pixel ${index} is ${grey}, expected ${expected}`)
        }
      }),
      { numRuns: 60 },
    )
  })
}

const nothing = Buffer.alloc(0)
const grey8: Form = { colourType: 0, bitDepth: 8, channels: 1 }
const small = { width: 3, samples: [1, 2, 3, 4, 5, 6], filters: [0, 1] }

const pngOf = (header: Buffer, data: Buffer, end = chunk('IEND', nothing)): Buffer =>
  Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', data), end])

const refusals: readonly (readonly [what: string, file: Buffer, text: RegExp])[] = [
  ['a file of another kind', Buffer.from('GIF89a, say'), /not a PNG file/],
  ['an empty file', Buffer.alloc(0), /not a PNG file/],
  ['a file that ends in a chunk', encodePng(small, grey8).subarray(0, 50), /ends inside its tEXt chunk/],
  ['a file without an end', encodePng(small, grey8).subarray(0, -12), /ends before its IEND chunk/],
  ['an interlaced file', pngOf(headerOf(1, 1, grey8, 1), deflateSync(Buffer.alloc(2))), /interlaced/],
  ['no pixels', pngOf(headerOf(0, 1, grey8), deflateSync(Buffer.alloc(2))), /no pixels: it is 0x1/],
  ['too many pixels', pngOf(headerOf(maxPixels, 2, grey8), deflateSync(Buffer.alloc(2))), /at most 4194304 pixels/],
  [
    'a colour type that is none',
    pngOf(headerOf(1, 1, { ...grey8, colourType: 5 }), deflateSync(Buffer.alloc(2))),
    /colour type 5/,
  ],
  ['a filter that is none', pngOf(headerOf(1, 1, grey8), deflateSync(Buffer.from([9, 0]))), /row 0 .* filter 9/],
  ['too little data', pngOf(headerOf(2, 2, grey8), deflateSync(Buffer.alloc(5))), /6 bytes of pixels were expected/],
  ['more data than pixels', pngOf(headerOf(2, 2, grey8), deflateSync(Buffer.alloc(1 << 20))), /more data than/],
  ['data that is not compressed', pngOf(headerOf(2, 2, grey8), Buffer.alloc(6)), /cannot be decompressed/],
  [
    'a palette that is missing',
    pngOf(headerOf(1, 1, { ...grey8, colourType: 3 }), deflateSync(Buffer.alloc(2))),
    /PLTE/,
  ],
  [
    'a first chunk that is not IHDR',
    Buffer.concat([signature, chunk('IDAT', nothing), chunk('IEND', nothing)]),
    /IHDR/,
  ],
]

for (const [what, file, text] of refusals) {
  test(`${what} is refused in words`, () => {
    assert.throws(() => decodePng(file), text)
  })
}

test('a byte changed anywhere is refused or leaves the picture as it was', () => {
  const file = encodePng({ width: 4, samples: [9, 8, 7, 6, 5, 4, 3, 2], filters: [2, 4] }, grey8)
  const intact = decodePng(file)
  fc.assert(
    fc.property(fc.nat(file.length - 1), fc.integer({ min: 1, max: 255 }), (index, change) => {
      const damaged = Buffer.from(file)
      damaged[index] = (damaged[index] ?? 0) ^ change
      try {
        assert.deepEqual(decodePng(damaged), intact)
      } catch (reason) {
        assert.match((reason as Error).message, /PNG/)
      }
    }),
  )
})
