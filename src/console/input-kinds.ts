// Which ways there are to fill an input, from its type and shape alone. Pure functions.

import type { ModelConfig, ModelMetadata } from '../client/web.ts'
import type { Filling, InputHint } from './input-hints.ts'

/** How the pixels of a picture lie in a tensor. */
export type PixelLayout = {
  readonly order: 'HW' | 'HWC' | 'CHW'
  readonly channels: 1 | 3 | 4
  /** -1: as large as the picture. */
  readonly height: number
  readonly width: number
}

export type InputSlot = {
  readonly name: string
  readonly dataType: string
  /** With the batch dimension, where the model batches. */
  readonly shape: readonly number[]
  readonly isBatching: boolean
  readonly isOptional: boolean
  /** The model remembers what came before, within a sequence. */
  readonly isSequence: boolean
  readonly fillings: readonly Filling[]
  readonly layout: PixelLayout | null
  readonly hint: InputHint
}

type Values = readonly (number | bigint | boolean | string | Uint8Array)[]

/** What a widget has for an input. */
export type Filled =
  | {
      readonly values: Values
      readonly shape?: readonly number[]
      /** Longer than the input takes: one piece after the other goes to the model, in one sequence. */
      readonly pieces?: Pieces
    }
  | { readonly bytes: Uint8Array }
  | { readonly problem: string }

export type Pieces = { readonly values: readonly Values[]; readonly seconds: number }

export type WidgetProps = { readonly slot: InputSlot; readonly onFilled: (filled: Filled) => void }

const mostPadSide = 128

export function inputSlots(
  metadata: ModelMetadata,
  config: ModelConfig,
  hints: ReadonlyMap<string, InputHint>,
): InputSlot[] {
  const isBatching = config.max_batch_size > 0
  const isSequence = config['sequence_batching'] !== undefined
  return metadata.inputs.map(({ name, dataType, shape }) => {
    const item = isBatching ? shape.slice(1) : shape
    const layout = pixelLayout(item, dataType)
    const configured = config.input.find((input) => input.name === name)
    const isOptional = configured?.['optional'] === true
    const hint = hints.get(name) ?? {}
    const fillings = hintedFirst(fillingsOf(dataType, item, layout), hint.as, layout)
    return { name, dataType, shape, isBatching, isOptional, isSequence, layout, fillings, hint }
  })
}

/** What a model asks for stands first, also where nobody would guess it from the shape. A picture needs the shape of one. */
function hintedFirst(
  found: readonly Filling[],
  first: Filling | undefined,
  layout: PixelLayout | null,
): readonly Filling[] {
  const isPossible = layout !== null || (first !== 'picture' && first !== 'drawing')
  return first === undefined || !isPossible ? found : [first, ...found.filter((each) => each !== first)]
}

function fillingsOf(dataType: string, item: readonly number[], layout: PixelLayout | null): Filling[] {
  if (dataType === 'BYTES') return ['text', 'file', 'json']
  if (layout !== null && isShortRow(item)) return ['numbers', 'drawing', 'picture', 'json', 'file']
  const found: Filling[] = []
  if (layout !== null && layout.channels === 1 && layout.height > 0 && layout.height <= mostPadSide)
    found.push('drawing')
  if (layout !== null) found.push('picture')
  if (isSound(item, dataType)) found.push('sound')
  return [...found, 'numbers', 'json', 'file']
}

/** A row of 16, 25, 36 or 49 numbers is hardly a picture: most are features. */
const isShortRow = (item: readonly number[]): boolean => item.length === 1 && (item[0] ?? 0) < 64

/** A long or open row of samples. */
const isSound = (item: readonly number[], dataType: string): boolean => {
  const long = item.filter((size) => size !== 1)
  return ['FP32', 'INT16'].includes(dataType) && long.length === 1 && ((long[0] ?? 0) < 0 || (long[0] ?? 0) >= 256)
}

/** Null: the shape is not one of a picture. */
function pixelLayout(item: readonly number[], dataType: string): PixelLayout | null {
  if (!['UINT8', 'INT8', 'FP32', 'FP16', 'INT32', 'FP64'].includes(dataType)) return null
  const channelsOf = (size: number | undefined): 1 | 3 | 4 | null =>
    size === 1 || size === 3 || size === 4 ? size : null
  // Without a batch dimension of its own a model may want a first dimension of 1.
  const sizes = item.length === 4 && (item[0] === 1 || item[0] === -1) ? item.slice(1) : item
  const [a = 0, b = 0, c = 0] = sizes
  if (sizes.length === 1) {
    const side = Math.sqrt(a)
    return Number.isInteger(side) && side >= 4 && side <= mostPadSide
      ? { order: 'HW', channels: 1, height: side, width: side }
      : null
  }
  if (sizes.length === 2) return isSide(a) && isSide(b) ? { order: 'HW', channels: 1, height: a, width: b } : null
  if (sizes.length !== 3) return null
  const last = channelsOf(c)
  if (last !== null && isSide(a) && isSide(b)) return { order: 'HWC', channels: last, height: a, width: b }
  const first = channelsOf(a)
  return first !== null && isSide(b) && isSide(c) ? { order: 'CHW', channels: first, height: b, width: c } : null
}

const isSide = (size: number): boolean => size === -1 || size >= 4

/** The shape of a request: the batch is 1, what is open follows from the number of elements. */
export function shapeFor(slot: InputSlot, elements: number): number[] {
  const shape = slot.shape.map((size, i) => (i === 0 && slot.isBatching ? 1 : size))
  const fixed = shape.reduce((product, size) => (size < 0 ? product : product * size), 1)
  let rest = fixed === 0 ? 0 : elements / fixed
  return shape.map((size) => {
    if (size >= 0) return size
    const value = rest
    rest = 1
    return Math.max(0, Math.floor(value))
  })
}

/**
 * A long row in pieces of `size`, each with `step` new values after the last ones of the piece before. What is missing before the
 * first and after the last value is 0.
 */
export function piecesOf(row: Float32Array, size: number, step: number): Float32Array[] {
  const pieces: Float32Array[] = []
  for (let at = 0; at < row.length; at += step) {
    const piece = new Float32Array(size)
    const from = at + step - size
    for (let i = 0; i < size; i++) piece[i] = row[from + i] ?? 0
    pieces.push(piece)
  }
  return pieces
}

/** Models that hear pieces of an odd size keep the end of the piece before in front of a power of two of new values. */
export const usualStep = (size: number): number => 2 ** Math.floor(Math.log2(Math.max(1, size)))

/** Numbers in any form that people paste: commas, spaces, lines, brackets. Throws with the word that is none. */
export function readNumbers(text: string, dataType: string): (number | bigint | boolean)[] {
  const words = text.split(/[\s,;[\]]+/).filter((word) => word !== '')
  return words.map((word) => {
    if (dataType === 'BOOL') {
      if (['true', '1'].includes(word)) return true
      if (['false', '0'].includes(word)) return false
      throw new Error(`'${word.slice(0, 40)}' is neither true nor false`)
    }
    if (dataType === 'INT64' || dataType === 'UINT64') {
      if (/^-?\d+$/.test(word)) return BigInt(word)
      throw new Error(`'${word.slice(0, 40)}' is not a whole number`)
    }
    const value = Number(word)
    if (Number.isNaN(value) && word !== 'NaN') throw new Error(`'${word.slice(0, 40)}' is not a number`)
    return value
  })
}

export const flattened = (value: unknown): unknown[] => (Array.isArray(value) ? value.flatMap(flattened) : [value])
