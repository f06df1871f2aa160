// The data of one row of a request: a tensor per input. Steps form streams, and a sequence sends the steps of a stream.

import type { DataType } from '../tensor/data-type.ts'
import type { Shape } from '../tensor/shape.ts'

export type StepTensor = {
  readonly name: string
  readonly dataType: DataType
  /** Without the batch dimension. */
  readonly shape: Shape
  readonly bytes: Uint8Array
}

export type InputStep = {
  readonly inputs: readonly StepTensor[]
  /** The expected outputs; null when the data has none. */
  readonly expected: readonly StepTensor[] | null
}

export type InputStreams = readonly (readonly InputStep[])[]

/** The most bytes of one input of a request, all rows together: the limit of protobuf and the server. */
export const maxInputBytes = 2 ** 31 - 1

/** The data could not be read or made; the message says which. */
export class InputDataError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'InputDataError'
  }
}
