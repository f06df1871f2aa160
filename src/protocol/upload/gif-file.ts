// The part of a GIF that is wanted: everything up to the end of its first picture. The decoder makes a list of all pictures before
// it decodes one, and 48 MB can hold three million of them.

/** Of at most 255 bytes each. 64 MiB of full ones are 263,172. */
const mostBlocks = 1_048_576

const [extension, picture] = [0x21, 0x2c]
const headBytes = 13
const descriptorBytes = 10

/** A view on the file; null: it has more blocks before the end of its first picture than are looked at. */
export function firstGifPicture(file: Buffer): Buffer | null {
  let blocks = 0
  let at = headBytes + colourBytes(file[10])
  while (file[at] === extension || file[at] === picture) {
    const isPicture = file[at] === picture
    // A picture has its own colours and the size of its codes before its blocks, an extension has its label.
    at += isPicture ? descriptorBytes + colourBytes(file[at + 9]) + 1 : 2
    for (let length = file[at] ?? 0; length > 0; length = file[at] ?? 0) {
      if (++blocks > mostBlocks) return null
      at += 1 + length
    }
    at++
    // An extension without blocks costs as much as one with a block.
    if (!isPicture && ++blocks > mostBlocks) return null
    if (isPicture) return file.subarray(0, at)
  }
  return file
}

/** Of the table that the flags tell of. */
const colourBytes = (flags = 0): number => ((flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1))
