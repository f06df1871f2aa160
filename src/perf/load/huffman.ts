// The Huffman code of HPACK (RFC 7541, appendix B), read bit by bit: it is met only in error messages and in the first
// header block of a connection, so plainness counts and speed does not.

/** Bits per symbol, 0 to 255. The code is canonical: the lengths say all. The end-of-string symbol has 30 bits. */
const lengths =
  '13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 ' +
  '6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 ' +
  '13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6 ' +
  '15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 ' +
  '20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 ' +
  '22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23 ' +
  '26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27 ' +
  '20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26'

/** `length:code` → symbol. */
let symbols: Map<number, number> | null = null

const keyOf = (length: number, code: number): number => code * 32 + length

function symbolTable(): Map<number, number> {
  const table = new Map<number, number>()
  const bits = lengths.split(' ').map(Number)
  let code = 0
  for (let length = 5; length <= 30; length++) {
    for (let symbol = 0; symbol < 256; symbol++) if (bits[symbol] === length) table.set(keyOf(length, code++), symbol)
    code *= 2
  }
  return table
}

/** Null when the bytes are no Huffman code: a bit string that means nothing, or more than 7 bits of padding. */
export function decodeHuffman(bytes: Uint8Array): string | null {
  symbols ??= symbolTable()
  let text = ''
  let code = 0
  let length = 0
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      code = code * 2 + ((byte >> bit) & 1)
      length++
      const symbol = symbols.get(keyOf(length, code))
      if (symbol !== undefined) {
        text += String.fromCharCode(symbol)
        code = 0
        length = 0
      } else if (length >= 30) return null
    }
  }
  const isPadding = length <= 7 && code === 2 ** length - 1
  return isPadding ? text : null
}
