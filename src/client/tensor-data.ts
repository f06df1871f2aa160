// The arrays that people have ⇄ the little-endian bytes of a tensor. Web globals only: this runs in browsers too.

import { encodeBytesElements, splitBytesElements } from '../tensor/bytes-elements.ts'
import {
  elementArray,
  elementBytes,
  elementsOf,
  fixedSizeTypes,
  type DataType,
  type ElementsOf,
  type FixedSizeType,
} from '../tensor/data-type.ts'
import { bf16Bits, fp16Bits } from '../tensor/half-float.ts'
import { InferenceError } from './inference-error.ts'

export type TypedArray = ElementsOf<FixedSizeType>

/** A typed array says its type by itself; strings are BYTES, booleans BOOL; plain numbers need a `dataType`. */
export type TensorData =
  TypedArray | readonly string[] | readonly Uint8Array[] | readonly boolean[] | readonly number[] | readonly bigint[]

type EncodedData = {
  readonly dataType: DataType
  readonly bytes: Uint8Array
  readonly elementCount: number
}

/** The type that an array says by itself: the narrow floats and booleans lie in arrays of integers. */
const ownTypes = fixedSizeTypes.filter((type) => type !== 'BOOL' && type !== 'FP16' && type !== 'BF16')

const isView = (data: TensorData): data is TypedArray => ArrayBuffer.isView(data)

/** Typed arrays of the tensor's own type are used in place; everything else is written into fresh bytes. */
export function encodeTensorData(name: string, data: TensorData, dataType?: DataType): EncodedData {
  if (isView(data)) return encodeView(name, data, dataType)
  const type = dataType ?? typeOfElements(name, data)
  if (type === 'BYTES') return encodeBytes(name, data)
  const values = new elementArray[type](data.length)
  for (let i = 0; i < data.length; i++) values[i] = elementOf(name, type, data[i])
  return { dataType: type, bytes: bytesOf(values), elementCount: values.length }
}

const bytesOf = (values: TypedArray): Uint8Array => new Uint8Array(values.buffer, values.byteOffset, values.byteLength)

function encodeView(name: string, data: TypedArray, dataType: DataType | undefined): EncodedData {
  const kind = viewType(data)
  const wanted = dataType ?? kind
  if (wanted === null) {
    throw InferenceError.ofArgument(`input '${name}': a ${data.constructor.name} is not a kind of tensor`)
  }
  const elementCount = data.length
  if (wanted === kind) return { dataType: wanted, bytes: bytesOf(data), elementCount }
  // The bits of the narrow floats, and booleans as 0 and 1, come in integer arrays of their width.
  const isSameBits =
    (kind === 'UINT16' && (wanted === 'FP16' || wanted === 'BF16')) || (kind === 'UINT8' && wanted === 'BOOL')
  if (isSameBits) return { dataType: wanted, bytes: bytesOf(data), elementCount }
  if (wanted === 'BYTES') {
    throw InferenceError.ofArgument(
      `input '${name}': BYTES needs an array of strings or Uint8Arrays, one per element, got a ${data.constructor.name}`,
    )
  }
  const isFloat = kind === 'FP32' || kind === 'FP64' || kind === 'FP16'
  if (!isFloat || (wanted !== 'FP16' && wanted !== 'BF16' && wanted !== 'FP32' && wanted !== 'FP64')) {
    throw InferenceError.ofArgument(
      `input '${name}': a ${data.constructor.name} does not hold ${wanted}; give a ${elementArray[wanted].name}`,
    )
  }
  const values = new elementArray[wanted](elementCount)
  for (let i = 0; i < elementCount; i++) values[i] = elementOf(name, wanted, data[i])
  return { dataType: wanted, bytes: bytesOf(values), elementCount }
}

/** Null for a DataView and the like. A Buffer is a Uint8Array. */
function viewType(data: TypedArray): DataType | null {
  for (const dataType of ownTypes) if (data instanceof elementArray[dataType]) return dataType
  // Float16Array is newer than some runtimes: known by its name.
  return data[Symbol.toStringTag] === ('Float16Array' as string) ? 'FP16' : null
}

function typeOfElements(name: string, data: readonly unknown[]): DataType {
  const first = data[0]
  if (typeof first === 'string' || first instanceof Uint8Array) return 'BYTES'
  if (typeof first === 'boolean') return 'BOOL'
  if (typeof first === 'bigint') return 'INT64'
  throw InferenceError.ofArgument(
    data.length === 0
      ? `input '${name}' is an empty array: say its dataType, or give a typed array`
      : `input '${name}': an array of ${typeof first}s does not say its type; give a typed array or a dataType`,
  )
}

function elementOf(name: string, type: DataType, value: unknown): never {
  // Typed arrays take numbers or bigints by their kind: a union that TypeScript cannot follow through an index.
  const wrong = (): InferenceError =>
    InferenceError.ofArgument(`input '${name}': ${String(value)} (a ${typeof value}) is not an element of ${type}`)
  if (type === 'INT64' || type === 'UINT64') {
    if (typeof value === 'bigint') return value as never
    if (typeof value !== 'number' || !Number.isInteger(value)) throw wrong()
    return BigInt(value) as never
  }
  if (type === 'BOOL') {
    if (typeof value !== 'boolean' && value !== 0 && value !== 1) throw wrong()
    return Number(value) as never
  }
  // A large whole number among floats comes out of JSON as a bigint.
  const number = typeof value === 'bigint' && (type === 'FP32' || type === 'FP64') ? Number(value) : value
  if (typeof number !== 'number') throw wrong()
  if (type === 'FP16') return fp16Bits(number) as never
  return (type === 'BF16' ? bf16Bits(number) : number) as never
}

function encodeBytes(name: string, data: readonly unknown[]): EncodedData {
  for (const element of data) {
    if (typeof element === 'string' || element instanceof Uint8Array) continue
    throw InferenceError.ofArgument(`input '${name}': ${String(element)} is neither a string nor a Uint8Array`)
  }
  const bytes = encodeBytesElements(data as readonly (string | Uint8Array)[])
  return { dataType: 'BYTES', bytes, elementCount: data.length }
}

/** The elements of a BYTES tensor, as views. */
export const bytesElements = (name: string, bytes: Uint8Array): Uint8Array[] =>
  splitBytesElements(
    bytes,
    (index) => new InferenceError('PROTOCOL', `tensor '${name}': BYTES element ${index} is cut short`),
  )

/** The numbers behind the bytes, without a last one that is cut short. */
export function typedValues(dataType: FixedSizeType, bytes: Uint8Array): TypedArray {
  const rest = bytes.length % elementBytes[dataType]
  return elementsOf(dataType, rest === 0 ? bytes : bytes.subarray(0, bytes.length - rest))
}
