// FP16 and BF16 ⇄ the numbers that JavaScript computes with. Rounds to nearest, ties to even, as hardware does.

const scratch = new DataView(new ArrayBuffer(4))

const bitsOf = (value: number): number => {
  scratch.setFloat32(0, value)
  return scratch.getUint32(0)
}

const floatOf = (bits: number): number => {
  scratch.setUint32(0, bits)
  return scratch.getFloat32(0)
}

/** The upper half of an FP32. */
export function bf16Bits(value: number): number {
  const bits = bitsOf(value)
  // A NaN whose payload sits in the lower half would be cut to an infinity: keep it quiet instead.
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff
}

export const bf16Value = (bits: number): number => floatOf(bits << 16)

export function bf16ToFloat32(bits: Uint16Array): Float32Array {
  const wide = new Uint32Array(bits.length)
  for (let i = 0; i < bits.length; i++) wide[i] = (bits[i] ?? 0) << 16
  return new Float32Array(wide.buffer)
}

export function fp16Bits(value: number): number {
  const bits = bitsOf(value)
  const sign = (bits >>> 16) & 0x8000
  const magnitude = bits & 0x7fffffff
  if (magnitude > 0x7f800000) return sign | 0x7e00
  // 65520 is the first number that rounds up to infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00
  if (magnitude < 0x38800000) {
    // Below the smallest normal number the steps are all 2^-24 wide.
    return sign | roundTiesToEven(Math.abs(floatOf(bits)) * 2 ** 24)
  }
  const rebased = magnitude - 0x38000000
  return sign | ((rebased + 0xfff + ((rebased >>> 13) & 1)) >>> 13)
}

export function fp16Value(bits: number): number {
  const sign = (bits & 0x8000) === 0 ? 1 : -1
  const exponent = (bits >>> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

function roundTiesToEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  if (rest !== 0.5) return Math.round(value)
  return floor % 2 === 0 ? floor : floor + 1
}
