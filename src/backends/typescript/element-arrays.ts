// Elements of a tensor ⇄ JavaScript values, one row per data type. Hosts are little-endian, as Node's platforms are.

import type { DataType } from '../../tensor/data-type.ts'

export type ElementArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float16Array
  | Float32Array
  | Float64Array

type ElementArrayClass = {
  new (length: number): ElementArray
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): ElementArray
  readonly BYTES_PER_ELEMENT: number
  readonly name: string
}

/** The array whose memory is the tensor's bytes. BF16 has none in JavaScript: its bits lie in a Uint16Array. */
export const elementArrays = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Float16Array,
  FP32: Float32Array,
  FP64: Float64Array,
  BF16: Uint16Array,
} as const satisfies Record<Exclude<DataType, 'BYTES'>, ElementArrayClass>

export type FixedSizeType = keyof typeof elementArrays

const integerBounds: Partial<Record<DataType, readonly [lowest: number, highest: number]>> = {
  UINT8: [0, 0xff],
  UINT16: [0, 0xffff],
  UINT32: [0, 0xffffffff],
  INT8: [-0x80, 0x7f],
  INT16: [-0x8000, 0x7fff],
  INT32: [-0x80000000, 0x7fffffff],
}

/** A view where the bytes are aligned, a copy where they are not. */
export function viewElements<T extends FixedSizeType>(
  dataType: T,
  bytes: Uint8Array,
): InstanceType<(typeof elementArrays)[T]> {
  const ArrayClass: ElementArrayClass = elementArrays[dataType]
  const length = bytes.byteLength / ArrayClass.BYTES_PER_ELEMENT
  const aligned = bytes.byteOffset % ArrayClass.BYTES_PER_ELEMENT === 0 ? bytes : Uint8Array.from(bytes)
  return new ArrayClass(aligned.buffer, aligned.byteOffset, length) as InstanceType<(typeof elementArrays)[T]>
}

/** Values of another form as elements of `dataType`; throws RangeError or TypeError with the offending value. */
export function convertElements(dataType: FixedSizeType, values: ArrayLike<unknown>): ElementArray {
  const length = values.length
  if (dataType === 'BF16') {
    const bits = new Uint16Array(length)
    for (let i = 0; i < length; i++) bits[i] = bf16FromNumber(numberAt(dataType, values, i))
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
    if (bounds !== undefined && !(Number.isInteger(value) && value >= bounds[0] && value <= bounds[1])) {
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

const scratch = new DataView(new ArrayBuffer(4))

/** The nearest BF16, ties to even; a NaN stays one. */
export function bf16FromNumber(value: number): number {
  scratch.setFloat32(0, value)
  const bits = scratch.getUint32(0)
  if (Number.isNaN(value)) return 0x7fc0
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff
}

export function bf16ToFloat32(bits: Uint16Array): Float32Array {
  const wide = new Uint32Array(bits.length)
  for (let i = 0; i < bits.length; i++) wide[i] = (bits[i] ?? 0) << 16
  return new Float32Array(wide.buffer)
}

/** Each element with its four bytes of length in front. */
export function frameByteElements(elements: readonly (string | Uint8Array)[]): Uint8Array {
  const encoded = elements.map((element) => (typeof element === 'string' ? Buffer.from(element, 'utf8') : element))
  const bytes = Buffer.allocUnsafeSlow(encoded.reduce((total, element) => total + 4 + element.byteLength, 0))
  let offset = 0
  for (const element of encoded) {
    bytes.writeUInt32LE(element.byteLength, offset)
    bytes.set(element, offset + 4)
    offset += 4 + element.byteLength
  }
  return bytes
}

/** Views on the framed elements; throws RangeError when a frame reaches past the end. */
export function splitByteElements(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: Uint8Array[] = []
  let offset = 0
  while (offset < bytes.byteLength) {
    const start = offset + 4
    const end = start > bytes.byteLength ? Infinity : start + view.getUint32(offset, true)
    if (end > bytes.byteLength) throw new RangeError(`element ${elements.length} reaches past the end of the tensor`)
    elements.push(bytes.subarray(start, end))
    offset = end
  }
  return elements
}

/** A value in an error message: its kind, never its contents. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  if (typeof value !== 'object' && typeof value !== 'function') return `a ${typeof value}`
  if (typeof value === 'function') return 'a function'
  if (Array.isArray(value)) return `an array of ${value.length}`
  const name = (value as { constructor?: { name?: unknown } }).constructor?.name
  return typeof name === 'string' && name !== 'Object' ? `an instance of ${name}` : 'an object'
}
