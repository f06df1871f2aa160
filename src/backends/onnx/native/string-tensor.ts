// String tensors: the protocol's framed bytes (four bytes of length, then the text) ⇄ ONNX Runtime's own strings.

import { ServerError } from '../../../base/server-error.ts'
import { addressOf, viewOf, type Address, type OrtLibrary } from './ort-library.ts'

/** Makes an OrtValue that owns copies of the strings. The caller releases it. */
export function createStringValue(
  library: OrtLibrary,
  name: string,
  bytes: Uint8Array,
  shape: BigInt64Array,
  elementCount: number,
): Address {
  const { functions } = library
  const offsets = frameOffsets(name, bytes, elementCount)
  const value = library.made((out) => functions.createTensorAsOrtValue(library.allocator, shape, shape.length, 8, out))
  library.adoptValue()
  try {
    fillStrings(library, value, bytes, offsets)
  } catch (reason) {
    library.releaseValue(value)
    throw reason
  }
  return value
}

/** Where each element's text begins and ends, `[begin, end, begin, end, …]`. */
function frameOffsets(name: string, bytes: Uint8Array, elementCount: number): Float64Array {
  // Each element has at least its four bytes of length: a shape that claims more elements is refused before allocating.
  if (elementCount * 4 > bytes.byteLength) throw badFrames(name, elementCount)
  const frames = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const offsets = new Float64Array(elementCount * 2)
  let at = 0
  for (let i = 0; i < elementCount; i++) {
    if (at + 4 > bytes.byteLength) throw badFrames(name, elementCount)
    const begin = at + 4
    const end = begin + frames.getUint32(at, true)
    if (end > bytes.byteLength) throw badFrames(name, elementCount)
    offsets[2 * i] = begin
    offsets[2 * i + 1] = end
    at = end
  }
  if (at !== bytes.byteLength) throw badFrames(name, elementCount)
  return offsets
}

const badFrames = (name: string, elementCount: number): ServerError =>
  ServerError.withoutStack(
    'INVALID_ARG',
    `input '${name}' does not hold exactly ${elementCount} length-prefixed strings`,
  )

function fillStrings(library: OrtLibrary, value: Address, bytes: Uint8Array, offsets: Float64Array): void {
  const count = offsets.length / 2
  if (count === 0) return
  const { functions } = library
  // FillStringTensor takes all texts at once, each with a zero at its end. A text with a zero inside is written again.
  const texts = new Uint8Array(new ArrayBuffer(bytes.byteLength - 3 * count))
  const addresses = new BigUint64Array(count)
  const base = addressOf(texts)
  const withZero: number[] = []
  let at = 0
  for (let i = 0; i < count; i++) {
    const begin = offsets[2 * i] as number
    const end = offsets[2 * i + 1] as number
    const text = bytes.subarray(begin, end)
    texts.set(text, at)
    addresses[i] = BigInt(base + at)
    at += text.length + 1
    if (text.includes(0)) withZero.push(i)
  }
  library.check(functions.fillStringTensor(value, addresses, count))
  for (const i of withZero) {
    const begin = offsets[2 * i] as number
    const end = offsets[2 * i + 1] as number
    const target = library.made((out) => functions.getResizedStringTensorElementBuffer(value, i, end - begin, out))
    viewOf(target, end - begin).set(bytes.subarray(begin, end))
  }
}

/** Copies the strings of a tensor into one framed buffer. */
export function readStringValue(library: OrtLibrary, value: Address, elementCount: number): Uint8Array {
  if (elementCount === 0) return new Uint8Array(0)
  const { functions } = library
  const textBytes = library.made((out) => functions.getStringTensorDataLength(value, out))
  const texts = new Uint8Array(textBytes)
  const begins = new BigUint64Array(elementCount)
  library.check(functions.getStringTensorContent(value, texts, textBytes, begins, elementCount))
  const framed = new Uint8Array(textBytes + 4 * elementCount)
  const frames = new DataView(framed.buffer)
  let at = 0
  for (let i = 0; i < elementCount; i++) {
    const begin = Number(begins[i])
    const end = i + 1 < elementCount ? Number(begins[i + 1]) : textBytes
    frames.setUint32(at, end - begin, true)
    framed.set(texts.subarray(begin, end), at + 4)
    at += 4 + end - begin
  }
  return framed
}
