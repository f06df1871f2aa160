// Asks a session for its inputs and outputs. Every OrtTypeInfo taken here is released here.

import type { OnnxTensorSpec } from '../onnx-session.ts'
import { loadKoffi } from '../../../base/koffi.ts'
import { dataTypeOfOnnx } from '../../../tensor/data-type.ts'
import type { Address, OrtLibrary } from './ort-library.ts'

const koffi = loadKoffi()
const onnxTypeNames = ['unknown', 'tensor', 'sequence', 'map', 'opaque', 'sparse tensor', 'optional']
const tensorType = 1

type Role = 'Input' | 'Output' | 'OverridableInitializer'

export function describeSession(library: OrtLibrary, session: Address, role: Role): OnnxTensorSpec[] {
  const { functions } = library
  const count = library.made((out) => functions[`sessionGet${role}Count`](session, out))
  const specs: OnnxTensorSpec[] = []
  for (let index = 0; index < count; index++) {
    const text = library.made((out) => functions[`sessionGet${role}Name`](session, index, library.allocator, out))
    const name = koffi.decode.string(BigInt(text))
    library.check(functions.allocatorFree(library.allocator, text))
    const typeInfo = library.made((out) => functions[`sessionGet${role}TypeInfo`](session, index, out))
    try {
      specs.push(describeType(library, name, typeInfo))
    } finally {
      functions.releaseTypeInfo(typeInfo)
    }
  }
  return specs
}

function describeType(library: OrtLibrary, name: string, typeInfo: Address): OnnxTensorSpec {
  const { functions } = library
  const kind = library.made((out) => functions.getOnnxTypeFromTypeInfo(typeInfo, out))
  if (kind !== tensorType) {
    return { name, dataType: null, typeText: onnxTypeNames[kind] ?? 'unknown', shape: null, symbols: [] }
  }
  // `info` belongs to `typeInfo` and must not be released.
  const info = library.made((out) => functions.castTypeInfoToTensorInfo(typeInfo, out))
  const elementType = library.made((out) => functions.getTensorElementType(info, out))
  const dataType = dataTypeOfOnnx(elementType)
  const typeText = dataType ?? `element type ${elementType}`
  if (!functions.tensorTypeAndShapeHasShape(info)) {
    return { name, dataType, typeText, shape: null, symbols: [] }
  }
  const rank = library.made((out) => functions.getDimensionsCount(info, out))
  const dims = new BigInt64Array(rank)
  const symbolAddresses = new BigUint64Array(rank)
  if (rank > 0) {
    library.check(functions.getDimensions(info, dims, rank))
    library.check(functions.getSymbolicDimensions(info, symbolAddresses, rank))
  }
  const shape = Array.from(dims, (dim) => (dim < 0n ? -1 : Number(dim)))
  const symbols = Array.from(symbolAddresses, (address) => (address === 0n ? '' : koffi.decode.string(address)))
  return { name, dataType, typeText, shape, symbols }
}

/** The shape of a tensor that ONNX Runtime made. */
export function shapeOfValue(library: OrtLibrary, value: Address): number[] {
  const { functions } = library
  const info = library.made((out) => functions.getTensorTypeAndShape(value, out))
  try {
    const rank = library.made((out) => functions.getDimensionsCount(info, out))
    const dims = new BigInt64Array(rank)
    if (rank > 0) library.check(functions.getDimensions(info, dims, rank))
    return Array.from(dims, Number)
  } finally {
    functions.releaseTensorTypeAndShapeInfo(info)
  }
}
