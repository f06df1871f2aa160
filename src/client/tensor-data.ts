// The arrays that people have ⇄ the little-endian bytes of a tensor. Web globals only: this runs in browsers too.

import { elementBytes, type DataType } from '../tensor/data-type.ts'
import { bf16Bits, fp16Bits } from './half-float.ts'
import { InferenceError } from './inference-error.ts'

export type NumberArray =
  Uint8Array | Uint16Array | Uint32Array | Int8Array | Int16Array | Int32Array | Float32Array | Float64Array
export type TypedArray = NumberArray | BigUint64Array | BigInt64Array

/** A typed array says its type by itself; strings are BYTES, booleans BOOL; plain numbers need a `dataType`. */
export type TensorData =
  TypedArray | readonly string[] | readonly Uint8Array[] | readonly boolean[] | readonly number[] | readonly bigint[]

export type EncodedData = {
  readonly dataType: DataType
  readonly bytes: Uint8Array
  readonly elementCount: number
}

type ArrayMaker = {
  new (length: number): TypedArray
  new (buffer: ArrayBufferLike, offset: number, length: number): TypedArray
  readonly name: string
}

/** The array that holds the elements of a type; FP16 and BF16 as their bits. */
export const arrayOfType: Readonly<Record<Exclude<DataType, 'BYTES'>, ArrayMaker>> = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
  BF16: Uint16Array,
}

const typeOfArray: readonly (readonly [ArrayMaker, DataType])[] = [
  [Uint8Array, 'UINT8'],
  [Uint16Array, 'UINT16'],
  [Uint32Array, 'UINT32'],
  [BigUint64Array, 'UINT64'],
  [Int8Array, 'INT8'],
  [Int16Array, 'INT16'],
  [Int32Array, 'INT32'],
  [BigInt64Array, 'INT64'],
  [Float32Array, 'FP32'],
  [Float64Array, 'FP64'],
]

const isView = (data: TensorData): data is TypedArray => ArrayBuffer.isView(data)

/** Typed arrays of the tensor's own type are used in place; everything else is written into fresh bytes. */
export function encodeTensorData(name: string, data: TensorData, dataType?: DataType): EncodedData {
  if (isView(data)) return encodeView(name, data, dataType)
  const type = dataType ?? typeOfElements(name, data)
  if (type === 'BYTES') return encodeBytes(name, data)
  const values = new arrayOfType[type](data.length)
  for (let i = 0; i < data.length; i++) values[i] = elementOf(name, type, data[i])
  return { dataType: type, bytes: bytesOf(values), elementCount: values.length }
}

export const bytesOf = (values: TypedArray): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength)

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
      `input '${name}': a ${data.constructor.name} does not hold ${wanted}; give a ${arrayOfType[wanted].name}`,
    )
  }
  const values = new arrayOfType[wanted](elementCount)
  for (let i = 0; i < elementCount; i++) values[i] = elementOf(name, wanted, data[i])
  return { dataType: wanted, bytes: bytesOf(values), elementCount }
}

/** Null for a DataView and the like. A Buffer is a Uint8Array. */
function viewType(data: TypedArray): DataType | null {
  for (const [kind, dataType] of typeOfArray) if (data instanceof kind) return dataType
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

const encoder = new TextEncoder()

/** Four bytes of length (little-endian) before each element. */
function encodeBytes(name: string, data: readonly unknown[]): EncodedData {
  const elements = data.map((element) => {
    if (typeof element === 'string') return encoder.encode(element)
    if (element instanceof Uint8Array) return element
    throw InferenceError.ofArgument(`input '${name}': ${String(element)} is neither a string nor a Uint8Array`)
  })
  const bytes = new Uint8Array(elements.reduce((sum, element) => sum + 4 + element.length, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const element of elements) {
    view.setUint32(at, element.length, true)
    bytes.set(element, at + 4)
    at += 4 + element.length
  }
  return { dataType: 'BYTES', bytes, elementCount: elements.length }
}

/** The elements of a BYTES tensor, as views. */
export function bytesElements(name: string, bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: Uint8Array[] = []
  for (let at = 0; at < bytes.length;) {
    const length = at + 4 <= bytes.length ? view.getUint32(at, true) : Infinity
    if (at + 4 + length > bytes.length) {
      throw new InferenceError('PROTOCOL', `tensor '${name}': BYTES element ${elements.length} is cut short`)
    }
    elements.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return elements
}

/** The numbers behind the bytes: a view when they are aligned for it, else a copy. */
export function typedValues(dataType: Exclude<DataType, 'BYTES'>, bytes: Uint8Array): TypedArray {
  const size = elementBytes[dataType]
  // A Buffer's slice() would be a view again.
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
  return new arrayOfType[dataType](aligned.buffer, aligned.byteOffset, Math.floor(aligned.byteLength / size))
}
