// The data of one request: a tensor per input, for one row. Steps make streams, streams are what sequences play.

import type { DataType } from '../tensor/data-type.ts'
import type { Shape } from '../tensor/shape.ts'

export type StepTensor = {
  readonly name: string
  readonly dataType: DataType
  /** Without the batch. */
  readonly shape: Shape
  readonly bytes: Uint8Array
}

export type InputStep = {
  readonly inputs: readonly StepTensor[]
  /** What the outputs must be; null where nobody said. */
  readonly expected: readonly StepTensor[] | null
}

export type InputStreams = readonly (readonly InputStep[])[]

/** Of one input of one request, all rows together: what protobuf and the server can take. */
export const maxInputBytes = 2 ** 31 - 1

/** The data could not be read or made; the message says which. */
export class InputDataError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'InputDataError'
  }
}
