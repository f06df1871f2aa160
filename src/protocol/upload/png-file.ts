// The parts of a PNG that are looked at before libvips reads it.

/** Its pixels come in pieces of 8 KiB and more. */
const mostChunks = 65_536

type Chunk = { readonly name: string; readonly at: number; readonly length: number }
const aroundChunk = 12

function* chunksOf(file: Buffer): Generator<Chunk> {
  for (let at = 8; at + 8 <= file.length;) {
    const length = file.readUInt32BE(at)
    yield { name: file.toString('latin1', at + 4, at + 8), at, length }
    at += aroundChunk + length
  }
}

/** Of the chunks before the pixels and behind them. A picture that names more chunks than libpng keeps counts as one that is full of texts. */
export function packedTextBytes(file: Buffer): number {
  let sum = 0
  let chunks = 0
  for (const { name, at, length } of chunksOf(file)) {
    if (chunks++ === mostChunks) return Infinity
    const text = name === 'iTXt' ? file.subarray(at + 8, at + 8 + Math.min(length, 128)) : null
    // In iTXt a byte behind the keyword says whether the text is compressed.
    if (name === 'zTXt' || (text !== null && text[text.indexOf(0) + 1] === 1)) sum += length
  }
  return sum
}

/** ImageMagick puts the orientation behind the pixels, where libvips does not look. In place. */
export function putExifFirst(file: Buffer): void {
  let pixels = 0
  for (const { name, at, length } of chunksOf(file)) {
    const end = at + aroundChunk + length
    if (name === 'IDAT' && pixels === 0) pixels = at
    if (name !== 'eXIf' || end > file.length) continue
    if (pixels > 0) {
      const exif = Buffer.from(file.subarray(at, end))
      file.copyWithin(pixels + exif.length, pixels, at)
      exif.copy(file, pixels)
    }
    return
  }
}
