// The Huffman code of HPACK (RFC 7541, appendix B). It is canonical: the codes follow from their lengths.

/** The length in bits of each byte's code. The last one is that of the end of text, which may not appear. */
// prettier-ignore
const codeLengths: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
]
const endOfText = 256
const shortestCodeBits = 5

/** Two numbers per node, for the bits 0 and 1: the next node, or -1 - byte where a code ends. */
const tree = buildTree()

function buildTree(): Int16Array {
  const nodes = new Int16Array(2 * codeLengths.length)
  let used = 1
  let code = 0
  let length = 0
  const order = codeLengths.map((bits, symbol) => ({ bits, symbol })).toSorted((a, b) => a.bits - b.bits)
  for (const { bits, symbol } of order) {
    code = code << (bits - length)
    length = bits
    let node = 0
    for (let bit = bits - 1; bit > 0; bit--) {
      const branch = 2 * node + ((code >>> bit) & 1)
      if (nodes[branch] === 0) nodes[branch] = used++
      node = nodes[branch] as number
    }
    nodes[2 * node + (code & 1)] = -1 - symbol
    code++
  }
  return nodes
}

/** Null where the code is wrong or the padding behind it is. */
export function decodeHuffman(bytes: Uint8Array, start = 0, end = bytes.length): string | null {
  const text = Buffer.allocUnsafe(Math.ceil(((end - start) * 8) / shortestCodeBits))
  let length = 0
  let node = 0
  /** Bits since the last whole code. Padding is up to seven bits, all 1. */
  let bits = 0
  let isAllOnes = true
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    for (let shift = 7; shift >= 0; shift--) {
      const bit = (byte >>> shift) & 1
      const next = tree[2 * node + bit] as number
      if (next < 0) {
        if (next === -1 - endOfText) return null
        text[length++] = -1 - next
        node = 0
        bits = 0
        isAllOnes = true
      } else {
        node = next
        bits++
        if (bit === 0) isAllOnes = false
      }
    }
  }
  if (bits > 7 || !isAllOnes) return null
  return text.toString('latin1', 0, length)
}
