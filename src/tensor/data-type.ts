// The tensor element types of the KServe v2 protocol, under their wire names.

export type DataType =
  | 'BOOL'
  | 'UINT8'
  | 'UINT16'
  | 'UINT32'
  | 'UINT64'
  | 'INT8'
  | 'INT16'
  | 'INT32'
  | 'INT64'
  | 'FP16'
  | 'FP32'
  | 'FP64'
  | 'BYTES'
  | 'BF16'

/** Bytes per element; 0 for BYTES, whose elements have each their own length. */
export const elementBytes: Readonly<Record<DataType, number>> = {
  BOOL: 1,
  UINT8: 1,
  UINT16: 2,
  UINT32: 4,
  UINT64: 8,
  INT8: 1,
  INT16: 2,
  INT32: 4,
  INT64: 8,
  FP16: 2,
  FP32: 4,
  FP64: 8,
  BYTES: 0,
  BF16: 2,
}

export const dataTypes = Object.keys(elementBytes) as readonly DataType[]

const known: ReadonlySet<string> = new Set(dataTypes)

export const isDataType = (text: string): text is DataType => known.has(text)

/** `TYPE_FP32` ⇄ `FP32`; only strings are called differently (`TYPE_STRING`, `BYTES`). Null for TYPE_INVALID. */
export function dataTypeOfConfig(configType: string): DataType | null {
  if (configType === 'TYPE_STRING') return 'BYTES'
  const name = configType.slice('TYPE_'.length)
  return isDataType(name) && name !== 'BYTES' ? name : null
}

export const configDataType = (dataType: DataType): string =>
  dataType === 'BYTES' ? 'TYPE_STRING' : `TYPE_${dataType}`
