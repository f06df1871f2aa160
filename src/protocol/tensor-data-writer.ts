// A tensor's elements → the flat array of a JSON output.

import { ServerError } from '../base/server-error.ts'
import { elementBytes, type DataType } from '../tensor/data-type.ts'
import { elementCount } from '../tensor/shape.ts'
import type { Tensor } from '../tensor/tensor.ts'
import {
  maxNumberBytes,
  writeDouble,
  writeFloat,
  writeInteger,
  writeSigned64,
  writeUnsigned,
  writeUnsigned64,
} from './json-number-writer.ts'
import type { JsonTextWriter } from './json-text-writer.ts'

/** Room in the buffer is reserved for so many numbers at a time. */
const chunkElements = 1024

/** Writes the element of that index, and returns where its text ends. */
export type NumberAt = (target: Uint8Array, offset: number, view: DataView, index: number) => number

export const numberAt: Partial<Record<Tensor['dataType'], NumberAt>> = {
  UINT8: (target, offset, view, i) => writeUnsigned(target, offset, view.getUint8(i)),
  UINT16: (target, offset, view, i) => writeUnsigned(target, offset, view.getUint16(i * 2, true)),
  UINT32: (target, offset, view, i) => writeUnsigned(target, offset, view.getUint32(i * 4, true)),
  INT8: (target, offset, view, i) => writeInteger(target, offset, view.getInt8(i)),
  INT16: (target, offset, view, i) => writeInteger(target, offset, view.getInt16(i * 2, true)),
  INT32: (target, offset, view, i) => writeInteger(target, offset, view.getInt32(i * 4, true)),
  UINT64: (target, offset, view, i) =>
    writeUnsigned64(target, offset, view.getUint32(i * 8 + 4, true), view.getUint32(i * 8, true)),
  INT64: (target, offset, view, i) =>
    writeSigned64(target, offset, view.getUint32(i * 8 + 4, true), view.getUint32(i * 8, true)),
  FP32: (target, offset, view, i) => writeFloat(target, offset, view.getFloat32(i * 4, true)),
  FP64: (target, offset, view, i) => writeDouble(target, offset, view.getFloat64(i * 8, true)),
}

export const outputMismatch = (name: string): ServerError =>
  new ServerError('INTERNAL', `output tensor shape does not match size of output for '${name}'`)

/** Throws INVALID_ARG for elements that JSON has no form for. */
export function requireJsonType(dataType: DataType): void {
  if (dataType !== 'FP16' && dataType !== 'BF16') return
  throw ServerError.withoutStack(
    'INVALID_ARG',
    `sending ${dataType} data via JSON is not supported. Please use the binary data format for output`,
  )
}

/** Writes the elements between brackets. */
export function writeTensorData(writer: JsonTextWriter, tensor: Tensor): void {
  const { name, dataType, bytes } = tensor
  requireJsonType(dataType)
  const count = elementCount(tensor.shape)
  if (dataType !== 'BYTES' && bytes.length !== count * elementBytes[dataType]) throw outputMismatch(name)
  writer.raw('[')
  if (dataType === 'BYTES') writeStrings(writer, name, bytes, count)
  else if (dataType === 'BOOL') writeBooleans(writer, bytes)
  else writeNumbers(writer, bytes, count, numberAt[dataType]!)
  writer.raw(']')
}

function writeNumbers(writer: JsonTextWriter, bytes: Uint8Array, count: number, writeAt: NumberAt): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let start = 0; start < count; start += chunkElements) {
    const end = Math.min(count, start + chunkElements)
    writer.reserve((end - start) * (maxNumberBytes + 1))
    const target = writer.bytes
    let offset = writer.length
    for (let i = start; i < end; i++) {
      offset = writeAt(target, offset, view, i)
      target[offset++] = 0x2c
    }
    writer.length = offset
  }
  // Removes the comma after the last number.
  if (count > 0) writer.length--
}

function writeBooleans(writer: JsonTextWriter, bytes: Uint8Array): void {
  for (let i = 0; i < bytes.length; i++) {
    if (i > 0) writer.raw(',')
    writer.raw(bytes[i] === 0 ? 'false' : 'true')
  }
}

function writeStrings(writer: JsonTextWriter, name: string, bytes: Uint8Array, count: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let offset = 0
  for (let i = 0; i < count; i++) {
    if (offset + 4 > bytes.length) throw outputMismatch(name)
    const start = offset + 4
    offset = start + view.getUint32(offset, true)
    if (offset > bytes.length) throw outputMismatch(name)
    if (i > 0) writer.raw(',')
    writer.stringBytes(bytes, start, offset)
  }
}
