// One input or output of a plan: its shape, its size and the place of its bytes. Computed once per set of input shapes.

import { ServerError } from '../../../base/server-error.ts'
import { elementBytes, onnxElementType } from '../../../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../../../tensor/shape.ts'
import type { OnnxTensorSpec, RunInput } from '../onnx-session.ts'
import type { BufferPool } from './buffer-pool.ts'
import { addressOf, type Address, type OrtLibrary } from './ort-library.ts'

/** Up to this size a copy costs less than to create and release an OrtValue (0.6 µs). bench/onnx-run.bench.ts */
export const smallTensorBytes = 4096

export type InputSlot = {
  readonly index: number
  readonly name: string
  readonly shape: BigInt64Array
  readonly shapeAddress: Address
  readonly rank: number
  readonly elementType: number
  readonly elements: number
  /** -1 for strings. */
  readonly byteLength: number
  readonly alignment: number
  /** The buffer of the kept value; null: each run creates a value. */
  readonly copy: Uint8Array | null
}

export type OutputSlot = {
  readonly spec: OnnxTensorSpec
  /** Null: ONNX Runtime allocates the output and sets its shape. */
  readonly shape: Shape | null
  readonly nativeShape: BigInt64Array | null
  readonly shapeAddress: Address
  readonly byteLength: number
  readonly copy: Uint8Array | null
  /** Where the copied output lies in the result's buffer. */
  readonly offset: number
  pooled: Uint8Array | null
}

export type PlanContext = {
  readonly library: OrtLibrary
  readonly pool: BufferPool
  /** Inputs, then overridable initializers. */
  readonly inputs: readonly OnnxTensorSpec[]
  readonly outputs: readonly OnnxTensorSpec[]
  /** False once an output had another shape than the model's own description says. */
  arePredictable: boolean
}

export function inputSlot(spec: OnnxTensorSpec, index: number, given: RunInput, isKept: boolean): InputSlot {
  // One element on the wire may be a scalar for the model.
  const isScalar = spec.shape?.length === 0 && given.shape.length === 1 && given.shape[0] === 1
  const shape = isScalar ? spec.shape : given.shape
  if (spec.dataType === null) throw new ServerError('UNSUPPORTED', `input '${spec.name}' is of type ${spec.typeText}`)
  if (!isCompatible(spec.shape, shape)) {
    throw ServerError.withoutStack(
      'INVALID_ARG',
      `input '${spec.name}': the model expects shape ${shapeText(spec.shape ?? [])}, got ${shapeText(shape)}`,
    )
  }
  const elements = elementCount(shape)
  if (!(elements >= 0 && elements < Infinity)) {
    throw ServerError.withoutStack('INVALID_ARG', `input '${spec.name}' has an impossible shape ${shapeText(shape)}`)
  }
  const alignment = elementBytes[spec.dataType]
  const byteLength = spec.dataType === 'BYTES' ? -1 : elements * alignment
  const nativeShape = nativeShapeOf(shape)
  return {
    index,
    name: spec.name,
    shape: nativeShape,
    shapeAddress: addressOf(nativeShape),
    rank: shape.length,
    elementType: onnxElementType[spec.dataType],
    elements,
    byteLength,
    alignment,
    copy:
      isKept && byteLength > 0 && byteLength <= smallTensorBytes ? new Uint8Array(new ArrayBuffer(byteLength)) : null,
  }
}

export function outputSlot(
  context: PlanContext,
  spec: OnnxTensorSpec,
  inputs: readonly (RunInput | null)[],
  isKept: boolean,
  offset: number,
): OutputSlot {
  const allocated: OutputSlot = {
    spec,
    shape: null,
    nativeShape: null,
    shapeAddress: 0,
    byteLength: 0,
    copy: null,
    offset,
    pooled: null,
  }
  if (!context.arePredictable || spec.dataType === null || spec.dataType === 'BYTES') return allocated
  const shape = predictShape(spec, context.inputs, inputs)
  if (shape === null) return allocated
  const byteLength = elementCount(shape) * elementBytes[spec.dataType]
  if (!(byteLength > 0 && byteLength < 0x7fffffff)) return allocated
  const isSmall = byteLength <= smallTensorBytes
  // For a small output of a plan used once, an allocation by ONNX Runtime is cheaper.
  if (isSmall && !isKept) return allocated
  const nativeShape = nativeShapeOf(shape)
  const copy = isSmall ? new Uint8Array(new ArrayBuffer(byteLength)) : null
  return { ...allocated, shape, nativeShape, shapeAddress: addressOf(nativeShape), byteLength, copy }
}

const nativeShapeOf = (shape: Shape): BigInt64Array => {
  const native = new BigInt64Array(new ArrayBuffer(8 * Math.max(1, shape.length)))
  for (const [i, size] of shape.entries()) native[i] = BigInt(size)
  return native
}

function isCompatible(declared: Shape | null, actual: Shape): boolean {
  if (declared === null) return true
  if (declared.length !== actual.length) return false
  return declared.every((size, i) => size < 0 || size === actual[i])
}

/**
 * The shape that an output will have, when the model's description tells it: every open dimension must have a name that
 * a dimension of an input has too. The description may be wrong; then the runner turns prediction off for the model.
 */
export function predictShape(
  output: OnnxTensorSpec,
  specs: readonly OnnxTensorSpec[],
  inputs: readonly (RunInput | null)[],
): Shape | null {
  if (output.shape === null) return null
  const shape: number[] = []
  for (const [i, size] of output.shape.entries()) {
    if (size >= 0) {
      shape.push(size)
      continue
    }
    const symbol = output.symbols[i] ?? ''
    const found = symbol === '' ? null : sizeOfSymbol(symbol, specs, inputs)
    if (found === null) return null
    shape.push(found)
  }
  return shape
}

function sizeOfSymbol(
  symbol: string,
  specs: readonly OnnxTensorSpec[],
  inputs: readonly (RunInput | null)[],
): number | null {
  let found: number | null = null
  for (const [i, spec] of specs.entries()) {
    const at = spec.symbols.indexOf(symbol)
    const size = at < 0 ? undefined : inputs[i]?.shape[at]
    if (size === undefined) continue
    // Inputs with different sizes may still run (1 is broadcast), but the size of the output is not known.
    if (found !== null && found !== size) return null
    found = size
  }
  return found
}
