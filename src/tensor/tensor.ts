import type { DataType } from './data-type.ts'
import type { Shape } from './shape.ts'

/**
 * A name, a type, a shape and the elements as little-endian bytes, row by row.
 * `bytes` is usually a view on a larger buffer and need not be aligned to the element size. BYTES elements are framed:
 * four bytes of length, then the bytes.
 */
export class Tensor {
  readonly name: string
  readonly dataType: DataType
  readonly shape: Shape
  readonly bytes: Uint8Array

  constructor(name: string, dataType: DataType, shape: Shape, bytes: Uint8Array) {
    this.name = name
    this.dataType = dataType
    this.shape = shape
    this.bytes = bytes
  }
}
