// Tensor bytes ⇄ the JavaScript values that people compute with. Little-endian hosts only, as everywhere.

import { ServerError } from '../base/server-error.ts'
import { encodeBytesElements, splitBytesElements } from './bytes-elements.ts'
import {
  elementArray,
  elementBytes,
  elementsOf,
  type DataType,
  type ElementsOf,
  type FixedSizeType,
} from './data-type.ts'
import { elementCount, shapeText, type Shape } from './shape.ts'
import { Tensor } from './tensor.ts'

/** FP16 and BF16 stay as their bits in a Uint16Array; half-float.ts converts them. BYTES are Uint8Arrays. */
export type TypedValues = ElementsOf<FixedSizeType>

/** The numbers of a tensor: a view when its bytes are aligned for it, else a copy. Not for BYTES. */
export function numbersOf(tensor: Tensor): TypedValues {
  const { dataType, bytes } = tensor
  if (dataType === 'BYTES') {
    throw new ServerError('INVALID_ARG', `tensor '${tensor.name}' is of type BYTES: read it with bytesElementsOf`)
  }
  return elementsOf(dataType, bytes)
}

/** The first `most` elements of a BYTES tensor, as views. Their framing has been checked, or is checked here. */
export const bytesElementsOf = (tensor: Tensor, most = Infinity): Uint8Array[] =>
  splitBytesElements(
    tensor.bytes,
    (index) => new ServerError('INVALID_ARG', `tensor '${tensor.name}': BYTES element ${index} is cut short`),
    most,
  )

const decoder = new TextDecoder()

export const stringsOf = (tensor: Tensor): string[] => bytesElementsOf(tensor).map((bytes) => decoder.decode(bytes))

/** A tensor over the array's own memory. The array's kind must fit the type, its length the shape. */
export function tensorOfNumbers(name: string, dataType: DataType, shape: Shape, values: TypedValues): Tensor {
  const expected = dataType === 'BYTES' ? null : elementArray[dataType]
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
  return new Tensor(name, 'BYTES', shape, encodeBytesElements(values))
}
