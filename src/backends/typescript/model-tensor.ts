import { encodeBytesElements } from '../../tensor/bytes-elements.ts'
import { elementBytes, type DataType, type FixedSizeType } from '../../tensor/data-type.ts'
import { bf16ToFloat32 } from '../../tensor/half-float.ts'
import { elementCount, shapeText, type Shape } from '../../tensor/shape.ts'
import {
  convertElements,
  describe,
  elementArrays,
  splitByteElements,
  viewElements,
  type ElementArray,
} from './element-arrays.ts'
import { InferenceError } from './inference-error.ts'

/** The values for `tensor()`. The typed array of the data type is used as it is; other values are converted. */
export type TensorValues =
  ElementArray | readonly number[] | readonly bigint[] | readonly boolean[] | readonly (string | Uint8Array)[]

/**
 * An input or output as a model sees it. Accessors return a view on the tensor's memory when JavaScript has an array of
 * its type. They throw when the tensor is of another type, and never reinterpret bytes.
 */
export class ModelTensor {
  readonly name: string
  readonly dataType: DataType
  /** With the batch dimension first when the model batches. */
  readonly shape: Shape
  /** Little-endian, row by row. Each BYTES element has four bytes of length in front. */
  readonly bytes: Uint8Array

  constructor(name: string, dataType: DataType, shape: Shape, bytes: Uint8Array) {
    this.name = name
    this.dataType = dataType
    this.shape = shape
    this.bytes = bytes
  }

  get elementCount(): number {
    return elementCount(this.shape)
  }

  /** FP32 as a view; FP16 and BF16 converted. */
  asFloat32(): Float32Array {
    if (this.dataType === 'FP16') return Float32Array.from(viewElements('FP16', this.bytes))
    if (this.dataType === 'BF16') return bf16ToFloat32(viewElements('BF16', this.bytes))
    return viewElements(this.#only('FP32', 'asFloat32'), this.bytes)
  }

  asFloat64(): Float64Array {
    return viewElements(this.#only('FP64', 'asFloat64'), this.bytes)
  }

  asFloat16(): Float16Array {
    return viewElements(this.#only('FP16', 'asFloat16'), this.bytes)
  }

  asInt8(): Int8Array {
    return viewElements(this.#only('INT8', 'asInt8'), this.bytes)
  }

  asInt16(): Int16Array {
    return viewElements(this.#only('INT16', 'asInt16'), this.bytes)
  }

  asInt32(): Int32Array {
    return viewElements(this.#only('INT32', 'asInt32'), this.bytes)
  }

  asBigInt64(): BigInt64Array {
    return viewElements(this.#only('INT64', 'asBigInt64'), this.bytes)
  }

  asUint8(): Uint8Array {
    return viewElements(this.#only('UINT8', 'asUint8'), this.bytes)
  }

  asUint16(): Uint16Array {
    return viewElements(this.#only('UINT16', 'asUint16'), this.bytes)
  }

  asUint32(): Uint32Array {
    return viewElements(this.#only('UINT32', 'asUint32'), this.bytes)
  }

  asBigUint64(): BigUint64Array {
    return viewElements(this.#only('UINT64', 'asBigUint64'), this.bytes)
  }

  asBooleans(): boolean[] {
    return Array.from(viewElements(this.#only('BOOL', 'asBooleans'), this.bytes), (element) => element !== 0)
  }

  /** BYTES elements as UTF-8 text. */
  asStrings(): string[] {
    return this.#frames('asStrings').map((element) =>
      Buffer.from(element.buffer, element.byteOffset, element.byteLength).toString('utf8'),
    )
  }

  /** BYTES elements as they are: an image, a serialised message. */
  asByteArrays(): Uint8Array[] {
    return this.#frames('asByteArrays')
  }

  /** Elements of any type as numbers, bigints, booleans or strings. Slow: for tests and debugging. */
  toArray(): (number | bigint | boolean | string)[] {
    if (this.dataType === 'BYTES') return this.asStrings()
    if (this.dataType === 'BOOL') return this.asBooleans()
    if (this.dataType === 'BF16') return Array.from(this.asFloat32())
    return Array.from<number | bigint>(viewElements(this.dataType, this.bytes))
  }

  /** The same elements under another name or shape; no copy. */
  with(changes: { name?: string; shape?: Shape }): ModelTensor {
    return fromBytes(changes.name ?? this.name, this.dataType, changes.shape ?? this.shape, this.bytes)
  }

  #frames(accessor: string): Uint8Array[] {
    if (this.dataType !== 'BYTES') this.#refuse(accessor)
    return splitByteElements(this.bytes)
  }

  #only<T extends FixedSizeType>(dataType: T, accessor: string): T {
    if (this.dataType !== dataType) this.#refuse(accessor)
    return dataType
  }

  #refuse(accessor: string): never {
    const right = accessors[this.dataType]
    throw new InferenceError(`tensor '${this.name}' is ${this.dataType}: read it with ${right}(), not ${accessor}()`)
  }
}

const accessors: Readonly<Record<DataType, string>> = {
  BOOL: 'asBooleans',
  UINT8: 'asUint8',
  UINT16: 'asUint16',
  UINT32: 'asUint32',
  UINT64: 'asBigUint64',
  INT8: 'asInt8',
  INT16: 'asInt16',
  INT32: 'asInt32',
  INT64: 'asBigInt64',
  FP16: 'asFloat32',
  FP32: 'asFloat32',
  FP64: 'asFloat64',
  BYTES: 'asStrings',
  BF16: 'asFloat32',
}

/**
 * A tensor of `values`. A typed array of the right type is not copied, and a large one is transferred to the server
 * with the response. So make a new array for every response.
 */
export function tensor(name: string, dataType: DataType, shape: Shape, values: TensorValues): ModelTensor {
  checkHead(name, dataType, shape)
  if (!Array.isArray(values) && !ArrayBuffer.isView(values)) {
    throw new InferenceError(`tensor '${name}': values must be a typed array or an array, got ${describe(values)}`)
  }
  const elements = values as ArrayLike<unknown>
  const expected = elementCount(shape)
  if (elements.length !== expected) {
    throw new InferenceError(
      `tensor '${name}': shape ${shapeText(shape)} takes ${expected} elements, got ${elements.length}`,
    )
  }
  try {
    return new ModelTensor(name, dataType, shape, elementsToBytes(dataType, elements))
  } catch (reason) {
    throw new InferenceError(`tensor '${name}': ${(reason as Error).message}`, 'INTERNAL', { cause: reason })
  }
}

export const fromStrings = (name: string, shape: Shape, strings: readonly string[]): ModelTensor =>
  tensor(name, 'BYTES', shape, strings)

/** A tensor of bytes that are in wire form already. */
export function fromBytes(name: string, dataType: DataType, shape: Shape, bytes: Uint8Array): ModelTensor {
  checkHead(name, dataType, shape)
  const expected = elementCount(shape) * elementBytes[dataType]
  if (dataType !== 'BYTES' && bytes.byteLength !== expected) {
    throw new InferenceError(
      `tensor '${name}': ${dataType} of shape ${shapeText(shape)} takes ${expected} bytes, got ${bytes.byteLength}`,
    )
  }
  return new ModelTensor(name, dataType, shape, bytes)
}

function checkHead(name: unknown, dataType: string, shape: unknown): void {
  if (typeof name !== 'string' || name === '') throw new InferenceError('Tensor name cannot be an empty string.')
  if (!(dataType in elementBytes)) {
    const known = Object.keys(elementBytes).join(', ')
    throw new InferenceError(`tensor '${name}': unknown data type '${dataType}', expected one of ${known}`)
  }
  if (!Array.isArray(shape) || !shape.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    const got = Array.isArray(shape) ? shapeText(shape as number[]) : describe(shape)
    throw new InferenceError(`tensor '${name}': shape must be an array of sizes of 0 or more, got ${got}`)
  }
}

function elementsToBytes(dataType: DataType, values: ArrayLike<unknown>): Uint8Array {
  if (dataType === 'BYTES') return encodeBytesElements(byteElements(values))
  const own = elementArrays[dataType]
  // 16-bit floats may also come as their bits, as decoders of weights or images have them.
  const isBits = values instanceof Uint16Array && (dataType === 'FP16' || dataType === 'BF16')
  const elements = values instanceof own || isBits ? (values as ElementArray) : convertElements(dataType, values)
  return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength)
}

function byteElements(values: ArrayLike<unknown>): (string | Uint8Array)[] {
  return Array.from(values, (value, index) => {
    if (typeof value === 'string' || value instanceof Uint8Array) return value
    throw new TypeError(`BYTES takes strings and Uint8Arrays, got ${describe(value)} at index ${index}`)
  })
}
