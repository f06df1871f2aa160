// Elements of a tensor ⇄ JavaScript values, one row per data type. Hosts are little-endian, as Node's platforms are.

import { splitBytesElements } from '../../tensor/bytes-elements.ts'
import { elementArray, elementsOf, integerBounds, type DataType, type FixedSizeType } from '../../tensor/data-type.ts'
import { bf16Bits } from '../../tensor/half-float.ts'

export type ElementArray = (typeof elementArrays)[FixedSizeType]['prototype']

/** FP16 is a Float16Array here. JavaScript has no array for BF16, so its bits lie in a Uint16Array. */
export const elementArrays = { ...elementArray, FP16: Float16Array } as const

/** A view where the bytes are aligned, a copy where they are not. */
export function viewElements<T extends FixedSizeType>(
  dataType: T,
  bytes: Uint8Array,
): (typeof elementArrays)[T]['prototype'] {
  const { buffer, byteOffset, length } = elementsOf(dataType, bytes)
  return new elementArrays[dataType](
    buffer as ArrayBuffer,
    byteOffset,
    length,
  ) as (typeof elementArrays)[T]['prototype']
}

/** Converts values to elements of `dataType`; throws RangeError or TypeError that names the wrong value. */
export function convertElements(dataType: FixedSizeType, values: ArrayLike<unknown>): ElementArray {
  const length = values.length
  if (dataType === 'BF16') {
    const bits = new Uint16Array(length)
    for (let i = 0; i < length; i++) bits[i] = bf16Bits(numberAt(dataType, values, i))
    return bits
  }
  if (dataType === 'INT64' || dataType === 'UINT64') {
    const elements = new elementArrays[dataType](length)
    for (let i = 0; i < length; i++) elements[i] = bigintAt(dataType, values, i)
    return elements
  }
  const elements = new elementArrays[dataType](length)
  if (dataType === 'BOOL') {
    for (let i = 0; i < length; i++) elements[i] = booleanAt(values, i)
    return elements
  }
  const bounds = integerBounds[dataType]
  for (let i = 0; i < length; i++) {
    const value = numberAt(dataType, values, i)
    if (bounds !== null && !(Number.isInteger(value) && value >= bounds[0] && value <= bounds[1])) {
      throw new RangeError(`value ${value} at index ${i} does not fit ${dataType}`)
    }
    elements[i] = value
  }
  return elements
}

function numberAt(dataType: DataType, values: ArrayLike<unknown>, index: number): number {
  const value = values[index]
  if (typeof value === 'number') return value
  throw new TypeError(`${dataType} takes numbers, got ${describe(value)} at index ${index}`)
}

function booleanAt(values: ArrayLike<unknown>, index: number): number {
  const value = values[index]
  if (value === true || value === 1) return 1
  if (value === false || value === 0) return 0
  throw new TypeError(`BOOL takes true and false, got ${describe(value)} at index ${index}`)
}

function bigintAt(dataType: 'INT64' | 'UINT64', values: ArrayLike<unknown>, index: number): bigint {
  const value = values[index]
  const integer = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value
  if (typeof integer !== 'bigint') {
    throw new TypeError(`${dataType} takes bigints or safe integers, got ${describe(value)} at index ${index}`)
  }
  const wrapped = dataType === 'INT64' ? BigInt.asIntN(64, integer) : BigInt.asUintN(64, integer)
  if (wrapped !== integer) throw new RangeError(`value ${integer} at index ${index} does not fit ${dataType}`)
  return integer
}

/** Views on the framed elements; throws RangeError when a frame reaches past the end. */
export const splitByteElements = (bytes: Uint8Array): Uint8Array[] =>
  splitBytesElements(bytes, (index) => new RangeError(`element ${index} reaches past the end of the tensor`))

/** Describes a value in an error message by its kind, never by its contents. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value !== 'object' && typeof value !== 'function') return `a ${typeof value}`
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return `an array of ${value.length}`
  const name = (value as { constructor?: { name?: unknown } }).constructor?.name
  return typeof name === 'string' && name !== 'Object' ? `an instance of ${name}` : 'an object'
}
