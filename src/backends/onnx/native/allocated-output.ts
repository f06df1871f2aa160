// An output that ONNX Runtime has allocated in memory of the host, because its shape was not known before the run.

import { ServerError } from '../../../base/server-error.ts'
import { elementBytes } from '../../../tensor/data-type.ts'
import { elementCount, type Shape } from '../../../tensor/shape.ts'
import type { OnnxTensorSpec } from '../onnx-session.ts'
import { shapeOfValue } from './describe-session.ts'
import { viewOf, type Address, type OrtLibrary } from './ort-library.ts'
import { smallTensorBytes } from './plan-slots.ts'
import { readStringValue } from './string-tensor.ts'

export type AllocatedOutput = {
  readonly shape: Shape
  /** The OrtValue that the bytes are a view on, for the receiver to release; 0: the bytes are a copy. */
  readonly value: Address
  readonly bytes: Uint8Array
}

/** The value belongs to this function from the call on. */
export function takeAllocated(library: OrtLibrary, value: Address, spec: OnnxTensorSpec): AllocatedOutput {
  let isHeld = false
  try {
    if (spec.dataType === null || library.made((out) => library.functions.getValueType(value, out)) !== 1) {
      throw new ServerError('UNSUPPORTED', `output '${spec.name}' is not a tensor and cannot be returned`)
    }
    const shape = shapeOfValue(library, value)
    const count = elementCount(shape)
    if (spec.dataType === 'BYTES') return { shape, value: 0, bytes: readStringValue(library, value, count) }
    const byteLength = count * elementBytes[spec.dataType]
    if (byteLength === 0) return { shape, value: 0, bytes: new Uint8Array(0) }
    const address = library.made((out) => library.functions.getTensorMutableData(value, out))
    if (byteLength > smallTensorBytes) {
      isHeld = true
      return { shape, value, bytes: viewOf(address, byteLength) }
    }
    const bytes = Buffer.allocUnsafe(byteLength)
    library.copyFrom(address, bytes)
    return { shape, value: 0, bytes }
  } finally {
    if (!isHeld) library.releaseValue(value)
  }
}
