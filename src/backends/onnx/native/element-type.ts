// ONNXTensorElementDataType of the C API ⇄ the protocol's DataType.

import type { DataType } from '../../../tensor/data-type.ts'

export const ortElementType: Readonly<Record<DataType, number>> = {
  FP32: 1,
  UINT8: 2,
  INT8: 3,
  UINT16: 4,
  INT16: 5,
  INT32: 6,
  INT64: 7,
  BYTES: 8,
  BOOL: 9,
  FP16: 10,
  FP64: 11,
  UINT32: 12,
  UINT64: 13,
  BF16: 16,
}

const byNumber = new Map(Object.entries(ortElementType).map(([name, number]) => [number, name as DataType]))

export const dataTypeOfOrt = (elementType: number): DataType | null => byNumber.get(elementType) ?? null
