/** Of each type: how many values a block has, and how many bytes. The numbers are those of ggml.h. */
const blocks: Readonly<Record<number, readonly [values: number, bytes: number]>> = {
  0: [1, 4], 1: [1, 2], 2: [32, 18], 3: [32, 20], 6: [32, 22], 7: [32, 24], 8: [32, 34], 9: [32, 36], 10: [256, 84],
  11: [256, 110], 12: [256, 144], 13: [256, 176], 14: [256, 210], 15: [256, 292], 16: [256, 66], 17: [256, 74], 18: [256, 98],
  19: [256, 50], 20: [32, 18], 21: [256, 110], 22: [256, 82], 23: [256, 136], 24: [1, 1], 25: [1, 2], 26: [1, 4], 27: [1, 8],
  28: [1, 8], 29: [256, 56], 30: [1, 2], 34: [256, 54], 35: [256, 66], 39: [32, 17],
} // prettier-ignore

/** The bytes of a tensor; 0 for a type that is not known here; null: no tensor of this type has such a shape. */
export function ggufTensorBytes(type: number, shape: readonly number[]): number | null {
  const values = shape.reduce((product, size) => product * size, 1)
  if (!Number.isSafeInteger(values) || shape.includes(0)) return null
  const block = blocks[type]
  if (block === undefined) return 0
  const [blockValues, blockBytes] = block
  if ((shape[0] ?? 1) % blockValues !== 0) return null
  const bytes = (values / blockValues) * blockBytes
  return Number.isSafeInteger(bytes) ? bytes : null
}
