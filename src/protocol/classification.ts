// Triton's classification extension: instead of an output, its k best classes as strings `value:index[:label]`.

import { lastOf } from '../base/run-in-slices.ts'
import { ServerError } from '../base/server-error.ts'
import { elementArray, elementBytes, type DataType, type FixedSizeType } from '../tensor/data-type.ts'
import { elementCount } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import { orderWithTies, shortRange } from './tie-order.ts'

/** Classes that are ranked per row, and classes that are listed for all rows together: beyond this a request is refused. */
const maxClasses = 1_000_000
/** Classes that are looked at in one step: about a millisecond. */
const stepClasses = 16 * 1024

type Scores = ArrayLike<number> | ArrayLike<bigint>

const isClassifiable = (dataType: DataType): boolean =>
  dataType === 'FP32' || dataType === 'FP64' || dataType.startsWith('INT') || dataType.startsWith('UINT')

export function classify(tensor: Tensor, count: number, labels: readonly string[], isBatching: boolean): Tensor {
  return lastOf(classifyInSteps(tensor, count, labels, isBatching))
}

/** The same, and others may be served between the steps. */
export function* classifyInSteps(
  tensor: Tensor,
  count: number,
  labels: readonly string[],
  isBatching: boolean,
): Generator<void, Tensor> {
  const { name, dataType, shape, bytes } = tensor
  if (!isClassifiable(dataType)) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `class result not available for output due to unsupported type '${dataType}'`,
    )
  }
  const hasRows = isBatching && shape.length > 0
  const rows = hasRows ? shape[0]! : 1
  const classes = elementCount(hasRows ? shape.slice(1) : shape)
  const best = Math.min(count, classes)
  if (classes > maxClasses || rows * best > maxClasses) {
    throw ServerError.withoutStack('INVALID_ARG', 'classification output tensor too large')
  }
  const width = elementBytes[dataType]
  if (bytes.length !== rows * classes * width) {
    throw new ServerError('INTERNAL', `output tensor shape does not match size of output for '${name}'`)
  }
  const listShape = hasRows ? [rows, best] : [best]
  // A tensor without elements may have any number of rows.
  if (best === 0) return new Tensor(name, 'BYTES', listShape, new Uint8Array(0))
  const isFloat = dataType === 'FP32' || dataType === 'FP64'
  const texts = new TextElements()
  for (let row = 0; row < rows; row++) {
    const scores = scoresOf(dataType, bytes, row * classes * width, classes)
    const byIndex = yield* rankInSteps(scores, best)
    const indices = hasTies(scores, byIndex) ? orderWithTies(scores).subarray(0, best) : byIndex
    for (let i = 0; i < indices.length; i++) {
      if (texts.count % stepClasses === stepClasses - 1) yield
      const index = indices[i] as number
      const score = isFloat ? sixDecimals(scores[index] as number) : String(scores[index])
      const label = labels[index]
      texts.add(label === undefined || label === '' ? `${score}:${index}` : `${score}:${index}:${label}`)
    }
  }
  return new Tensor(name, 'BYTES', listShape, texts.finish())
}

/** The elements of a BYTES tensor, written one by one: writing a million at the end would take long. */
class TextElements {
  count = 0
  #bytes = Buffer.allocUnsafe(1024)
  #length = 0

  add(text: string): void {
    const most = 4 + text.length * 3
    if (this.#length + most > this.#bytes.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.#length + most))
      this.#bytes.copy(grown, 0, 0, this.#length)
      this.#bytes = grown
    }
    const written = this.#bytes.write(text, this.#length + 4)
    this.#bytes.writeUInt32LE(written, this.#length)
    this.#length += 4 + written
    this.count++
  }

  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }
}

/** A copy, because a tensor's bytes need not be aligned. */
function scoresOf(dataType: DataType, bytes: Uint8Array, offset: number, count: number): Scores {
  const buffer = new ArrayBuffer(count * elementBytes[dataType])
  new Uint8Array(buffer).set(bytes.subarray(offset, offset + buffer.byteLength))
  return new elementArray[dataType as FixedSizeType](buffer)
}

/** Larger scores come first, equal scores by index, NaN last: a NaN is never the best class. */
function isBetter(scores: Scores, a: number, b: number): boolean {
  const scoreA = scores[a]!
  const scoreB = scores[b]!
  if (scoreA > scoreB) return true
  if (scoreA < scoreB) return false
  if (scoreA === scoreB) return a < b
  const isNaNA = Number.isNaN(scoreA)
  return isNaNA === Number.isNaN(scoreB) ? a < b : !isNaNA
}

/**
 * The indices of the `count` best scores, best first. A heap keeps the best scores so far, with the worst of them on
 * top. So to find a few of a million scores costs one comparison for nearly every score.
 */
export const bestIndices = (scores: Scores, count: number): Uint32Array => lastOf(rankInSteps(scores, count))

function* rankInSteps(scores: Scores, count: number): Generator<void, Uint32Array> {
  const heap = new Uint32Array(count)
  if (count === 0) return heap
  for (let i = 0; i < count; i++) heap[i] = i
  for (let i = (count >> 1) - 1; i >= 0; i--) {
    if (i % stepClasses === 0) yield
    siftDown(scores, heap, i, count)
  }
  for (let i = count; i < scores.length; i++) {
    if (i % stepClasses === 0) yield
    if (!isBetter(scores, i, heap[0]!)) continue
    heap[0] = i
    siftDown(scores, heap, 0, count)
  }
  for (let size = count - 1; size > 0; size--) {
    if (size % stepClasses === 0) yield
    const worst = heap[0]!
    heap[0] = heap[size]!
    heap[size] = worst
    siftDown(scores, heap, 0, size)
  }
  return heap
}

/**
 * Whether Triton may list other classes than the best by index, or list them in another order. With a NaN its order has no rule, and of
 * more scores than one step takes equal ones stay in the order of their indices.
 */
function hasTies(scores: Scores, best: Uint32Array): boolean {
  if (best.length === 0 || scores.length <= shortRange || scores.length > stepClasses) return false
  const least = scores[best[best.length - 1]!]!
  let likeLeast = 0
  for (let i = 0; i < scores.length; i++) {
    if (Number.isNaN(scores[i])) return false
    if (scores[i] === least) likeLeast++
  }
  if (likeLeast > 1) return true
  return best.some((index, place) => place > 0 && scores[index] === scores[best[place - 1]!])
}

function siftDown(scores: Scores, heap: Uint32Array, start: number, size: number): void {
  const index = heap[start]!
  let position = start
  for (;;) {
    let child = position * 2 + 1
    if (child >= size) break
    if (child + 1 < size && isBetter(scores, heap[child]!, heap[child + 1]!)) child++
    if (!isBetter(scores, index, heap[child]!)) break
    heap[position] = heap[child]!
    position = child
  }
  heap[position] = index
}

/** C's `%f`. */
export function sixDecimals(value: number): string {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value < 0 ? '-inf' : 'inf'
  if (Math.abs(value) >= 1e21) return `${BigInt(value)}.000000`
  const text = Object.is(value, -0) || (value < 0 && value > -5e-7) ? '-0.000000' : value.toFixed(6)
  // The halfway cases are the odd multiples of 2⁻⁷. C rounds them to the even digit, but toFixed away from zero.
  const scaled = value * 128
  const isHalfway = Number.isInteger(scaled) && scaled % 2 !== 0
  const last = text.charCodeAt(text.length - 1)
  return isHalfway && last % 2 !== 0 ? text.slice(0, -1) + String.fromCharCode(last - 1) : text
}
