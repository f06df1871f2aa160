// The parsed body of an HTTP infer request.

import type { Parameters } from '../model/parameters.ts'
import type { Tensor } from '../tensor/tensor.ts'

/** A piece of a registered shared memory region, as a client names it. */
export type SharedMemoryReference = {
  readonly region: string
  readonly offset: bigint
  readonly byteSize: bigint
}

export type OutputSelection = {
  readonly name: string
  readonly isBinary: boolean
  /** 0: the tensor itself; k > 0: its k best classes instead. */
  readonly classificationCount: number
  readonly sharedMemory: SharedMemoryReference | null
}

export type ParsedInfer = {
  readonly id: string
  readonly parameters: Parameters
  readonly correlationId: bigint | string
  readonly isSequenceStart: boolean
  readonly isSequenceEnd: boolean
  readonly priority: bigint
  readonly timeoutUs: bigint
  /** Binary inputs are views on the body; inputs that came as JSON have a buffer each. */
  readonly inputs: Tensor[]
  /** Inputs whose bytes lie in shared memory, by index in `inputs`. The tensors in `inputs` have no bytes yet. */
  readonly sharedMemoryInputs: ReadonlyMap<number, SharedMemoryReference>
  /** In the order of the request; of two outputs with one name only the first. Empty: all outputs of the model. */
  readonly outputs: readonly OutputSelection[]
  /** Whether an output that `outputs` does not list goes out as binary. */
  readonly binaryOutputDefault: boolean
}
