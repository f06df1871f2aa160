// Does the candidate answer as stable does? Compares the outputs of a shadow copy with those of the request. Pure, and off the
// hot path.

import { editDistance } from '../base/nearest-word.ts'
import type { DataType } from '../tensor/data-type.ts'
import { bf16ToFloat32, fp16Value } from '../tensor/half-float.ts'
import { shapesEqual, shapeText } from '../tensor/shape.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { bytesElementsOf, numbersOf, stringsOf } from '../tensor/typed-values.ts'

export type OutputComparison =
  | { readonly how: 'close'; readonly rtol: number; readonly atol: number }
  | { readonly how: 'exact' }
  | { readonly how: 'ignore' }
  | { readonly how: 'topk'; readonly k: number }
  | { readonly how: 'cosine' | 'max_abs' | 'iou' | 'text'; readonly threshold: number }

/** `distance` is 0 for equal outputs and grows with the difference; Infinity where the two cannot be compared. */
type OutputResult = {
  readonly name: string
  readonly isEqual: boolean
  readonly distance: number
  /** '' for equal outputs. */
  readonly why: string
}

export type PairResult = {
  readonly isEqual: boolean
  /** The largest of the outputs. */
  readonly distance: number
  readonly outputs: readonly OutputResult[]
}

const tolerances: Partial<Record<DataType, readonly [rtol: number, atol: number]>> = {
  FP16: [1e-2, 1e-3],
  BF16: [1e-2, 1e-3],
  FP32: [1e-3, 1e-5],
  FP64: [1e-6, 1e-9],
}

/** What is meant where the file says nothing. */
function defaultComparison(dataType: DataType): OutputComparison {
  const [rtol, atol] = tolerances[dataType] ?? []
  return rtol === undefined || atol === undefined ? { how: 'exact' } : { how: 'close', rtol, atol }
}

/** `rules` by name of the output. An output that only one of the two has is a difference. */
export function compareOutputs(
  stable: readonly Tensor[],
  candidate: readonly Tensor[],
  rules: Readonly<Record<string, OutputComparison>>,
): PairResult {
  const ofCandidate = new Map(candidate.map((tensor) => [tensor.name, tensor]))
  const outputs = stable.map((tensor) => {
    const other = ofCandidate.get(tensor.name)
    ofCandidate.delete(tensor.name)
    const rule = Object.hasOwn(rules, tensor.name) ? rules[tensor.name] : undefined
    if (rule?.how === 'ignore') return same(tensor.name)
    if (other === undefined) return different(tensor.name, 'the candidate did not answer with it')
    return compareOne(tensor, other, rule ?? defaultComparison(tensor.dataType))
  })
  for (const name of ofCandidate.keys()) {
    const isIgnored = Object.hasOwn(rules, name) && rules[name]?.how === 'ignore'
    outputs.push(isIgnored ? same(name) : different(name, 'stable did not answer with it'))
  }
  return {
    isEqual: outputs.every((output) => output.isEqual),
    distance: outputs.reduce((worst, output) => Math.max(worst, output.distance), 0),
    outputs,
  }
}

const same = (name: string): OutputResult => ({ name, isEqual: true, distance: 0, why: '' })
const different = (name: string, why: string): OutputResult => ({ name, isEqual: false, distance: Infinity, why })

function compareOne(stable: Tensor, candidate: Tensor, rule: OutputComparison): OutputResult {
  const { name } = stable
  if (stable.dataType !== candidate.dataType) {
    return different(name, `its type is ${candidate.dataType}, that of stable is ${stable.dataType}`)
  }
  if (!shapesEqual(stable.shape, candidate.shape)) {
    return different(name, `its shape is ${shapeText(candidate.shape)}, that of stable is ${shapeText(stable.shape)}`)
  }
  const isText = stable.dataType === 'BYTES'
  if (isText !== (rule.how === 'text') && rule.how !== 'exact') {
    return different(name, `outputs of type ${stable.dataType} cannot be compared by '${rule.how}'`)
  }
  const { distance, limit } = measure(stable, candidate, rule)
  const isEqual = distance <= limit
  return { name, isEqual, distance, why: isEqual ? '' : `${rule.how}: the distance is ${distance}, at most ${limit}` }
}

type Measured = { readonly distance: number; readonly limit: number }

function measure(stable: Tensor, candidate: Tensor, rule: OutputComparison): Measured {
  if (rule.how === 'ignore') return { distance: 0, limit: 0 }
  if (rule.how === 'exact') return { distance: exactDistance(stable, candidate), limit: 0 }
  if (rule.how === 'text') return { distance: textDistance(stable, candidate), limit: rounded(1 - rule.threshold) }
  const [s, c] = [valuesOf(stable), valuesOf(candidate)]
  const width = stable.shape.at(-1) ?? 1
  if (rule.how === 'close') return { distance: closeDistance(s, c, rule.rtol, rule.atol), limit: 1 }
  if (rule.how === 'topk') return { distance: topkDistance(s, c, width, rule.k), limit: 0 }
  if (rule.how === 'cosine') return { distance: cosineDistance(s, c, width), limit: rounded(1 - rule.threshold) }
  if (rule.how === 'max_abs') return { distance: closeDistance(s, c, 0, 1), limit: rule.threshold }
  const isBoxes = width === 4 && stable.dataType.startsWith('FP')
  const distance = isBoxes ? boxDistance(s, c) : maskDistance(s, c)
  return { distance, limit: rounded(1 - rule.threshold) }
}

/** 1 - 0.9 is a little less than 0.1 in binary. */
const rounded = (value: number): number => value + 1e-12

type Values = ArrayLike<number>

function valuesOf(tensor: Tensor): Values {
  const numbers = numbersOf(tensor)
  if (tensor.dataType === 'BF16') return bf16ToFloat32(numbers as Uint16Array)
  if (tensor.dataType === 'FP16') return Float64Array.from(numbers as Uint16Array, fp16Value)
  if (numbers instanceof BigInt64Array || numbers instanceof BigUint64Array) return Float64Array.from(numbers, Number)
  return numbers
}

/** The share of bytes, or of BYTES elements, that differ. */
function exactDistance(stable: Tensor, candidate: Tensor): number {
  if (Buffer.compare(stable.bytes, candidate.bytes) === 0) return 0
  if (stable.dataType === 'BYTES') {
    const [s, c] = [bytesElementsOf(stable), bytesElementsOf(candidate)]
    const differing = s.filter((bytes, i) => Buffer.compare(bytes, c[i] ?? new Uint8Array()) !== 0)
    return differing.length / Math.max(1, s.length)
  }
  let differing = 0
  for (let i = 0; i < stable.bytes.length; i++) if (stable.bytes[i] !== candidate.bytes[i]) differing++
  return differing / stable.bytes.length
}

/** The largest of |c - s| / (atol + rtol |s|): up to 1 is close. Two NaN are equal, and so are two equal infinities. */
function closeDistance(s: Values, c: Values, rtol: number, atol: number): number {
  let worst = 0
  for (let i = 0; i < s.length; i++) {
    const [expected, found] = [s[i] as number, c[i] as number]
    if (Object.is(expected, found) || expected === found) continue
    const allowed = atol + rtol * Math.abs(expected)
    const distance = Math.abs(found - expected) / allowed
    if (!(distance <= worst)) worst = Number.isNaN(distance) ? Infinity : distance
  }
  return worst
}

/** The share of rows whose k highest values are not of the same classes. */
function topkDistance(s: Values, c: Values, width: number, k: number): number {
  const rows = Math.max(1, s.length / Math.max(1, width))
  let differing = 0
  for (let row = 0; row < s.length; row += width) {
    const expected = topClasses(s, row, width, k)
    const found = new Set(topClasses(c, row, width, k))
    if (!expected.every((index) => found.has(index))) differing++
  }
  return differing / rows
}

/** Of equal values the lower index is first. NaN is below everything. */
function topClasses(values: Values, start: number, width: number, k: number): number[] {
  const at = (index: number): number => {
    const value = values[start + index] as number
    return Number.isNaN(value) ? -Infinity : value
  }
  if (k === 1) {
    let best = 0
    for (let i = 1; i < width; i++) if (at(i) > at(best)) best = i
    return [best]
  }
  const indexes = Array.from({ length: width }, (_, i) => i)
  return indexes.sort((a, b) => (at(a) === at(b) ? a - b : at(b) > at(a) ? 1 : -1)).slice(0, k)
}

/** 1 - cosine of the row that differs most. */
function cosineDistance(s: Values, c: Values, width: number): number {
  let worst = 0
  for (let row = 0; row < s.length; row += width) {
    let [product, ofS, ofC] = [0, 0, 0]
    for (let i = row; i < row + width; i++) {
      const [a, b] = [s[i] as number, c[i] as number]
      product += a * b
      ofS += a * a
      ofC += b * b
    }
    const areZero = ofS === 0 && ofC === 0
    const distance = areZero ? 0 : 1 - product / Math.sqrt(ofS * ofC)
    // A zero vector beside another one, or a NaN, has no angle.
    worst = Math.max(worst, Number.isNaN(distance) ? 2 : distance)
  }
  return worst
}

const mostBoxes = 2000

/** Boxes as x1, y1, x2, y2: each box of stable takes the best box that is left. 1 - the worst overlap. */
function boxDistance(s: Values, c: Values): number {
  const count = s.length / 4
  if (count > mostBoxes) return closeDistance(s, c, 0, 1e-6) === 0 ? 0 : Infinity
  const left = new Set(Array.from({ length: count }, (_, i) => i))
  let worst = 0
  for (let i = 0; i < count; i++) {
    let [best, bestOverlap] = [-1, -1]
    for (const j of left) {
      const overlap = boxOverlap(s, i * 4, c, j * 4)
      if (overlap > bestOverlap) [best, bestOverlap] = [j, overlap]
    }
    left.delete(best)
    worst = Math.max(worst, 1 - Math.max(0, bestOverlap))
  }
  return worst
}

function boxOverlap(s: Values, i: number, c: Values, j: number): number {
  const corner = (values: Values, at: number): number => values[at] as number
  const wide = Math.min(corner(s, i + 2), corner(c, j + 2)) - Math.max(corner(s, i), corner(c, j))
  const high = Math.min(corner(s, i + 3), corner(c, j + 3)) - Math.max(corner(s, i + 1), corner(c, j + 1))
  const area = (values: Values, at: number): number =>
    Math.max(0, corner(values, at + 2) - corner(values, at)) *
    Math.max(0, corner(values, at + 3) - corner(values, at + 1))
  const both = Math.max(0, wide) * Math.max(0, high)
  const either = area(s, i) + area(c, j) - both
  if (either > 0) return both / either
  // Boxes without an area overlap when they are the same box; padding is such a box.
  return [0, 1, 2, 3].every((k) => corner(s, i + k) === corner(c, j + k)) ? 1 : 0
}

/** Masks: 1 - the share of what both have in what either has. */
function maskDistance(s: Values, c: Values): number {
  let [both, either] = [0, 0]
  for (let i = 0; i < s.length; i++) {
    const [inS, inC] = [s[i] !== 0, c[i] !== 0]
    if (inS && inC) both++
    if (inS || inC) either++
  }
  return either === 0 ? 0 : 1 - both / either
}

/** The edit distance takes time by the product of the lengths. Beyond this much of it texts are equal or not. */
const mostEditSteps = 16 * 1024 * 1024

/** Edit distance / length of the text that differs most. */
function textDistance(stable: Tensor, candidate: Tensor): number {
  const [s, c] = [stringsOf(stable), stringsOf(candidate)]
  let worst = 0
  let steps = 0
  s.forEach((text, i) => {
    const other = c[i] ?? ''
    if (text === other) return
    steps += text.length * other.length
    const longest = Math.max(text.length, other.length)
    worst = Math.max(worst, steps > mostEditSteps ? 1 : editDistance(text, other) / longest)
  })
  return worst
}
