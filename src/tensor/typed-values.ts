// Tensor bytes ⇄ the JavaScript values that people compute with. Little-endian hosts only, as everywhere.

import { ServerError } from '../base/server-error.ts'
import type { DataType } from './data-type.ts'
import { elementBytes } from './data-type.ts'
import { elementCount, shapeText, type Shape } from './shape.ts'
import { Tensor } from './tensor.ts'

/** FP16 and BF16 stay as their bits in a Uint16Array; half-float.ts converts them. BYTES are Uint8Arrays. */
export type TypedValues =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array

type ArrayMaker = new (buffer: ArrayBufferLike, offset: number, length: number) => TypedValues

const arrayOf: Readonly<Record<Exclude<DataType, 'BYTES'>, ArrayMaker>> = {
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

/** The numbers of a tensor: a view when its bytes are aligned for it, else a copy. Not for BYTES. */
export function numbersOf(tensor: Tensor): TypedValues {
  const { dataType, bytes } = tensor
  if (dataType === 'BYTES') {
    throw new ServerError('INVALID_ARG', `tensor '${tensor.name}' is of type BYTES: read it with bytesElementsOf`)
  }
  const size = elementBytes[dataType]
  const aligned = bytes.byteOffset % size === 0 ? bytes : Uint8Array.from(bytes)
  return new arrayOf[dataType](aligned.buffer, aligned.byteOffset, aligned.byteLength / size)
}

/** The elements of a BYTES tensor, as views. The framing has been checked, or is checked here. */
export function bytesElementsOf(tensor: Tensor): Uint8Array[] {
  const { bytes } = tensor
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const elements: Uint8Array[] = []
  for (let at = 0; at < bytes.length;) {
    const length = at + 4 <= bytes.length ? view.getUint32(at, true) : Infinity
    if (at + 4 + length > bytes.length) {
      throw new ServerError('INVALID_ARG', `tensor '${tensor.name}': BYTES element ${elements.length} is cut short`)
    }
    elements.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return elements
}

const decoder = new TextDecoder()

export const stringsOf = (tensor: Tensor): string[] => bytesElementsOf(tensor).map((bytes) => decoder.decode(bytes))

/** A tensor over the array's own memory. The array's kind must fit the type, its length the shape. */
export function tensorOfNumbers(name: string, dataType: DataType, shape: Shape, values: TypedValues): Tensor {
  const expected = dataType === 'BYTES' ? null : arrayOf[dataType]
  // A Buffer is a Uint8Array too, and Uint8Array is what holds BOOL and raw bytes of any type.
  const isRaw = values instanceof Uint8Array
  if (expected === null || !(isRaw || values instanceof expected)) {
    const wanted = expected === null ? 'strings or Uint8Arrays' : `a ${expected.name}`
    throw new ServerError(
      'INVALID_ARG',
      `tensor '${name}' of type ${dataType} needs ${wanted}, got a ${values.constructor.name}`,
    )
  }
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
  const expectedBytes = elementCount(shape) * elementBytes[dataType]
  if (bytes.byteLength !== expectedBytes) {
    throw new ServerError(
      'INVALID_ARG',
      `tensor '${name}' of type ${dataType} and shape ${shapeText(shape)} needs ${expectedBytes} bytes, got ${bytes.byteLength}`,
    )
  }
  return new Tensor(name, dataType, shape, bytes)
}

export function tensorOfStrings(name: string, shape: Shape, values: readonly (string | Uint8Array)[]): Tensor {
  if (values.length !== elementCount(shape)) {
    throw new ServerError(
      'INVALID_ARG',
      `tensor '${name}' of shape ${shapeText(shape)} needs ${elementCount(shape)} elements, got ${values.length}`,
    )
  }
  const elements = values.map((value) => (typeof value === 'string' ? Buffer.from(value) : value))
  const bytes = Buffer.allocUnsafe(elements.reduce((sum, element) => sum + 4 + element.length, 0))
  let at = 0
  for (const element of elements) {
    at = bytes.writeUInt32LE(element.length, at)
    bytes.set(element, at)
    at += element.length
  }
  return new Tensor(name, 'BYTES', shape, bytes)
}
