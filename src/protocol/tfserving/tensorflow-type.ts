// TensorFlow's data types: their numbers in TensorProto, and how its error texts spell them.

import type { ModelSignature } from '../../config/model-signature.ts'
import type { DataType } from '../../tensor/data-type.ts'

type Row = readonly [number: number, name: string, listField: number]

const rows: Readonly<Record<DataType, Row>> = {
  FP32: [1, 'float', 5],
  FP64: [2, 'double', 6],
  INT32: [3, 'int32', 7],
  UINT8: [4, 'uint8', 7],
  INT16: [5, 'int16', 7],
  INT8: [6, 'int8', 7],
  BYTES: [7, 'string', 8],
  INT64: [9, 'int64', 10],
  BOOL: [10, 'bool', 11],
  BF16: [14, 'bfloat16', 13],
  UINT16: [17, 'uint16', 7],
  FP16: [19, 'half', 13],
  UINT32: [22, 'uint32', 16],
  UINT64: [23, 'uint64', 17],
}

const byNumber: (DataType | undefined)[] = []
for (const [dataType, [number]] of Object.entries(rows)) byNumber[number] = dataType as DataType

/** The field of TensorProto that lists the elements of a type. */
export const listField = (dataType: DataType): number => rows[dataType][2]
export const tensorflowNumber = (dataType: DataType): number => rows[dataType][0]
export const tensorflowName = (dataType: DataType): string => rows[dataType][1]
/** `DT_FLOAT` */
export const tensorflowEnumName = (dataType: DataType): string => `DT_${rows[dataType][1].toUpperCase()}`
/** Null for a type that no model of this server has: complex, quantised, resources. */
export const dataTypeOfTensorflow = (number: number): DataType | null => byNumber[number] ?? null

/** JSON has small integers as TensorProto has them: those of 32 bits, which wrap. */
export const typeInJson = (dataType: DataType): DataType =>
  listField(dataType) === listField('INT32') ? 'INT32' : dataType

/** TensorFlow Serving has no numbers of these types in JSON. */
export const formless: ReadonlySet<DataType> = new Set(['FP16', 'BF16', 'UINT16'])

/** The signature that every model has: its inputs and outputs. */
export const defaultSignature = 'serving_default'
/** A model of this server has one signature. Its configuration may say which of a file it is. */
export const isKnownSignature = (name: string, { chosenName }: Pick<ModelSignature, 'chosenName'>): boolean =>
  name === '' || name === defaultSignature || name === chosenName
