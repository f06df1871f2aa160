// A small PNG reader: every colour type and bit depth, every filter, no interlacing. It trusts nothing: sizes are checked
// before memory is taken, checksums before data is used, and an error says what is wrong with which part of the file.

import { crc32, inflateSync } from 'node:zlib'

/** One byte per pixel, row by row, 0 = black, 255 = white. */
export type GreyImage = { readonly width: number; readonly height: number; readonly pixels: Uint8Array }

/** The most pixels an image may have. A 2048x2048 drawing is far more than a digit needs, and 4 MiB of grey. */
export const maxPixels = 4 * 1024 * 1024

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

type Header = {
  readonly width: number
  readonly height: number
  readonly bitDepth: number
  readonly colourType: number
  /** Samples per pixel. */
  readonly channels: number
}

const channelsOf: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 }
const bitDepthsOf: Readonly<Record<number, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
}

export const isPng = (file: Buffer): boolean => file.subarray(0, signature.length).equals(signature)

/** Colours become their luminance; what is transparent shows white paper. */
export const decodePng = (file: Buffer): GreyImage => {
  if (!isPng(file)) throw new Error('this is not a PNG file: its first eight bytes are not the PNG signature')
  const [first, ...chunks] = chunksOf(file)
  if (first?.name !== 'IHDR') throw new Error(`a PNG file starts with IHDR, this one with ${first?.name ?? 'nothing'}`)
  const header = parseHeader(first.content)
  const compressed = chunks.filter((chunk) => chunk.name === 'IDAT').map((chunk) => chunk.content)
  const palette = chunks.find((chunk) => chunk.name === 'PLTE')?.content ?? null
  const transparency = chunks.find((chunk) => chunk.name === 'tRNS')?.content ?? null
  const rows = unfilter(inflate(Buffer.concat(compressed), header), header)
  return { width: header.width, height: header.height, pixels: toGrey(rows, header, palette, transparency) }
}

type Chunk = { readonly name: string; readonly content: Buffer }

/** All chunks before IEND, each with its checksum proven. */
const chunksOf = (file: Buffer): Chunk[] => {
  const chunks: Chunk[] = []
  let offset = signature.length
  for (;;) {
    if (offset + 12 > file.length) throw new Error('the PNG file ends before its IEND chunk: it was cut short')
    const end = offset + 8 + file.readUInt32BE(offset)
    const name = file.toString('latin1', offset + 4, offset + 8)
    if (end + 4 > file.length) throw new Error(`the PNG file ends inside its ${name} chunk: it was cut short`)
    if (crc32(file.subarray(offset + 4, end)) !== file.readUInt32BE(end)) {
      throw new Error(`the checksum of the PNG file's ${name} chunk is wrong: the file is damaged`)
    }
    if (name === 'IEND') return chunks
    chunks.push({ name, content: file.subarray(offset + 8, end) })
    offset = end + 4
  }
}

const parseHeader = (content: Buffer): Header => {
  if (content.length !== 13) throw new Error(`a PNG file's IHDR has 13 bytes, this one ${content.length}`)
  const width = content.readUInt32BE(0)
  const height = content.readUInt32BE(4)
  const bitDepth = content.readUInt8(8)
  const colourType = content.readUInt8(9)
  const channels = channelsOf[colourType]
  if (width === 0 || height === 0) throw new Error(`the PNG file has no pixels: it is ${width}x${height}`)
  if (width * height > maxPixels) {
    throw new Error(`the PNG file is ${width}x${height}: at most ${maxPixels} pixels are read; make it smaller`)
  }
  if (channels === undefined || bitDepthsOf[colourType]?.includes(bitDepth) !== true) {
    throw new Error(`the PNG file has colour type ${colourType} with ${bitDepth} bits, which PNG does not know`)
  }
  if (content.readUInt8(10) !== 0 || content.readUInt8(11) !== 0) {
    throw new Error('the PNG file has a compression or filter method that PNG does not know')
  }
  if (content.readUInt8(12) !== 0) {
    throw new Error('interlaced PNG files are not read: save it without interlacing')
  }
  return { width, height, bitDepth, colourType, channels }
}

const rowBytesOf = (header: Header): number => Math.ceil((header.width * header.channels * header.bitDepth) / 8)

/** The filtered rows; never more bytes than the header promised, whatever the stream would expand to. */
const inflate = (compressed: Buffer, header: Header): Buffer => {
  const expected = header.height * (1 + rowBytesOf(header))
  let filtered: Buffer
  try {
    filtered = inflateSync(compressed, { maxOutputLength: expected })
  } catch (reason) {
    const isTooLong = reason instanceof RangeError
    const what = isTooLong ? 'has more data than its size promises' : 'cannot be decompressed'
    throw new Error(`the PNG file ${what}: it is damaged`, { cause: reason })
  }
  if (filtered.length < expected) {
    throw new Error(`the PNG file is damaged: ${expected} bytes of pixels were expected, it has ${filtered.length}`)
  }
  return filtered
}

/** Undoes the filter of each row, in place, and returns the rows without their filter bytes. */
const unfilter = (filtered: Buffer, header: Header): Buffer => {
  const rowBytes = rowBytesOf(header)
  const step = Math.max(1, (header.channels * header.bitDepth) / 8)
  const rows = Buffer.alloc(header.height * rowBytes)
  for (let row = 0; row < header.height; row++) {
    const source = row * (rowBytes + 1)
    const start = row * rowBytes
    const filter = filtered.readUInt8(source)
    if (filter > 4) throw new Error(`row ${row} of the PNG file has filter ${filter}: PNG knows 0 to 4`)
    for (let index = 0; index < rowBytes; index++) {
      const left = index >= step ? (rows[start + index - step] ?? 0) : 0
      const up = row > 0 ? (rows[start + index - rowBytes] ?? 0) : 0
      const upLeft = row > 0 && index >= step ? (rows[start + index - rowBytes - step] ?? 0) : 0
      // The buffer keeps the low eight bits, which is the modulo that PNG asks for.
      rows[start + index] = (filtered[source + 1 + index] ?? 0) + predict(filter, left, up, upLeft)
    }
  }
  return rows
}

const predict = (filter: number, left: number, up: number, upLeft: number): number => {
  if (filter === 0) return 0
  if (filter === 1) return left
  if (filter === 2) return up
  if (filter === 3) return (left + up) >> 1
  const estimate = left + up - upLeft
  const [toLeft, toUp, toUpLeft] = [Math.abs(estimate - left), Math.abs(estimate - up), Math.abs(estimate - upLeft)]
  if (toLeft <= toUp && toLeft <= toUpLeft) return left
  return toUp <= toUpLeft ? up : upLeft
}

const luminance = (red: number, green: number, blue: number): number => 0.299 * red + 0.587 * green + 0.114 * blue

const onWhite = (grey: number, alpha: number): number => Math.round(255 + ((grey - 255) * alpha) / 255)

const toGrey = (rows: Buffer, header: Header, palette: Buffer | null, transparency: Buffer | null): Uint8Array => {
  const { width, height, channels, bitDepth, colourType } = header
  if (colourType === 3 && palette === null) throw new Error('the PNG file has palette colours but no PLTE chunk')
  const shades = palette === null || colourType !== 3 ? null : shadesOf(palette, transparency)
  const rowBytes = rowBytesOf(header)
  const samples = new Uint8Array(channels)
  const pixels = new Uint8Array(width * height)
  for (let row = 0, index = 0; row < height; row++) {
    for (let column = 0; column < width; column++, index++) {
      for (let channel = 0; channel < channels; channel++) {
        samples[channel] = sampleAt(rows, row * rowBytes, column * channels + channel, bitDepth)
      }
      const [first = 0, second = 0, third = 0, fourth = 0] = samples
      if (colourType === 0) pixels[index] = (first * 255) / (bitDepth < 8 ? 2 ** bitDepth - 1 : 255)
      else if (colourType === 4) pixels[index] = onWhite(first, second)
      else if (colourType === 6) pixels[index] = onWhite(luminance(first, second, third), fourth)
      else if (shades === null) pixels[index] = Math.round(luminance(first, second, third))
      else if (first < shades.length) pixels[index] = shades[first] ?? 0
      else throw new Error(`the PNG file uses colour ${first} of a palette that has ${shades.length}`)
    }
  }
  return pixels
}

/** One sample of a row: less than 8 bits as they are, of 16 bits the upper half. */
const sampleAt = (rows: Buffer, start: number, index: number, bitDepth: number): number => {
  if (bitDepth === 8) return rows[start + index] ?? 0
  if (bitDepth === 16) return rows[start + 2 * index] ?? 0
  const bit = index * bitDepth
  return ((rows[start + (bit >> 3)] ?? 0) >> (8 - bitDepth - (bit & 7))) & (2 ** bitDepth - 1)
}

const shadesOf = (palette: Buffer, transparency: Buffer | null): Uint8Array => {
  const shades = new Uint8Array(Math.floor(palette.length / 3))
  for (let index = 0; index < shades.length; index++) {
    const [red = 0, green = 0, blue = 0] = palette.subarray(3 * index)
    shades[index] = onWhite(luminance(red, green, blue), transparency?.[index] ?? 255)
  }
  return shades
}
