// The tensor element types of the KServe v2 protocol, under their wire names: one row each, for everybody. Web globals
// only: the SDK reads it in browsers too.

type Bounds = readonly [lowest: number, highest: number]
type Row = readonly [array: unknown, code: number, onnx: number, bounds: Bounds | null]

/**
 * A row has: the array whose memory is the tensor's bytes (null for BYTES; FP16 and BF16 are there as their bits), Triton's
 * number in model_config.proto, ONNX's number in TensorProto, and the bounds of integers that fit a JavaScript number.
 */
const rows = {
  BOOL: [Uint8Array, 1, 9, [0, 1]],
  UINT8: [Uint8Array, 2, 2, [0, 0xff]],
  UINT16: [Uint16Array, 3, 4, [0, 0xffff]],
  UINT32: [Uint32Array, 4, 12, [0, 0xffffffff]],
  UINT64: [BigUint64Array, 5, 13, null],
  INT8: [Int8Array, 6, 3, [-0x80, 0x7f]],
  INT16: [Int16Array, 7, 5, [-0x8000, 0x7fff]],
  INT32: [Int32Array, 8, 6, [-0x80000000, 0x7fffffff]],
  INT64: [BigInt64Array, 9, 7, null],
  FP16: [Uint16Array, 10, 10, null],
  FP32: [Float32Array, 11, 1, null],
  FP64: [Float64Array, 12, 11, null],
  BYTES: [null, 13, 8, null],
  BF16: [Uint16Array, 14, 16, null],
} as const satisfies Record<string, Row>

export type DataType = keyof typeof rows
export type FixedSizeType = Exclude<DataType, 'BYTES'>
export type ElementsOf<T extends FixedSizeType> = (typeof rows)[T][0]['prototype']

export const dataTypes = Object.keys(rows) as readonly DataType[]

const column = <Value, Type extends DataType = DataType>(
  types: readonly DataType[],
  valueOf: (dataType: DataType) => Value,
): Readonly<Record<Type, Value>> =>
  Object.fromEntries(types.map((each) => [each, valueOf(each)])) as Record<Type, Value>

export const fixedSizeTypes = dataTypes.filter((each) => each !== 'BYTES') as readonly FixedSizeType[]

export const elementArray = column(fixedSizeTypes, (each) => rows[each][0]) as unknown as {
  readonly [T in FixedSizeType]: (typeof rows)[T][0]
}

/** Bytes per element; 0 for BYTES, whose elements have each their own length. */
export const elementBytes = column(dataTypes, (each) => rows[each][0]?.BYTES_PER_ELEMENT ?? 0)

export const dataTypeCode = column(dataTypes, (each): number => rows[each][1])
export const onnxElementType = column(dataTypes, (each): number => rows[each][2])
export const integerBounds = column(dataTypes, (each): Bounds | null => rows[each][3])

const typesByCode = new Map(dataTypes.map((each) => [dataTypeCode[each], each]))
const typesByOnnx = new Map(dataTypes.map((each) => [onnxElementType[each], each]))

export const dataTypeOfCode = (code: number): DataType | null => typesByCode.get(code) ?? null
export const dataTypeOfOnnx = (elementType: number): DataType | null => typesByOnnx.get(elementType) ?? null

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

/** The numbers behind the bytes: a view where the bytes are aligned for it, a copy where they are not. */
export function elementsOf<T extends FixedSizeType>(dataType: T, bytes: Uint8Array): ElementsOf<T> {
  const size = elementBytes[dataType]
  // Not slice(): that of a Buffer would be a view again.
  const { buffer, byteOffset, byteLength } = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
  return new elementArray[dataType](buffer as ArrayBuffer, byteOffset, byteLength / size) as ElementsOf<T>
}
