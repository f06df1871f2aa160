// Tensor → tensorflow.TensorProto, as an entry of the map of outputs.

import { ProtobufWriter, smallBytes } from '../../protobuf/protobuf-writer.ts'
import { elementBytes, type DataType } from '../../tensor/data-type.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { listField, tensorflowNumber } from './tensorflow-type.ts'

/** Elements that are written in one step: less than a millisecond. */
const stepElements = 32 * 1024

/** Whether `writeSmallEntry` writes this tensor; else `writeLargeEntry` does, in steps. */
export const isSmallEntry = ({ bytes }: Tensor): boolean => bytes.length <= smallBytes

/** One entry of the map of outputs: key 1, TensorProto 2. HOT: once per output. */
export function writeSmallEntry(writer: ProtobufWriter, field: number, tensor: Tensor, asContent: boolean): void {
  const entry = writer.beginNested(field)
  writer.textField(1, tensor.name)
  const inner = writer.beginNested(2)
  writeHead(writer, tensor)
  if (tensor.bytes.length > 0) writeElements(writer, tensor, asContent)
  writer.endNested(inner)
  writer.endNested(entry)
}

function writeElements(writer: ProtobufWriter, tensor: Tensor, asContent: boolean): void {
  const { dataType, bytes } = tensor
  const write = writeElement[dataType]
  if (dataType === 'BYTES') writeTexts(writer, bytes, 0, Infinity)
  else if (asContent || write === undefined) {
    writer.tag(asContent ? contentField : listField[dataType], 2)
    writer.raw(bytes)
  } else {
    const list = writer.beginNested(listField[dataType])
    const view = viewOf(bytes)
    const count = bytes.length / elementBytes[dataType]
    for (let i = 0; i < count; i++) write(writer, view, i)
    writer.endNested(list)
  }
}

/** The same in steps. Large floats follow as a view. */
export function* writeLargeEntry(
  writer: ProtobufWriter,
  field: number,
  tensor: Tensor,
  asContent: boolean,
): Generator<void, void> {
  const { dataType, bytes, name } = tensor
  // Floats and booleans have the same bytes in a packed list as in a tensor.
  const isPayload = dataType !== 'BYTES' && (asContent || writeElement[dataType] === undefined)
  const payload = isPayload ? bytes : dataType === 'BYTES' ? yield* textFields(bytes) : yield* packedList(tensor)
  // A view cannot stand inside `nested`, so the lengths are written before what they count.
  const head = new ProtobufWriter(32 + tensor.shape.length * 8 + name.length * 3)
  writeHead(head, tensor)
  // Texts are fields each, and stand in the payload with their tags. Other payloads have a tag and a length.
  const hasLength = dataType !== 'BYTES'
  if (hasLength) head.tag(asContent ? contentField : listField[dataType], 2)
  const tensorBytes = head.length + payload.length + (hasLength ? varintBytes(payload.length) : 0)
  const key = new ProtobufWriter(16 + name.length * 3)
  key.textField(1, name)
  key.tag(2, 2)
  key.uint32(tensorBytes)
  writer.tag(field, 2)
  writer.uint32(key.length + tensorBytes)
  writer.copy(key.finish())
  writer.copy(head.finish())
  if (hasLength) writer.rawOrView(payload)
  else writer.copy(payload)
}

const contentField = 4

/** dtype 1, tensor_shape 2 (dim 2 (size 1)). */
function writeHead(writer: ProtobufWriter, { dataType, shape }: Tensor): void {
  writer.integerField(1, tensorflowNumber(dataType))
  const outer = writer.beginNested(2)
  for (let i = 0; i < shape.length; i++) {
    const size = shape[i] as number
    writer.tag(2, 2)
    // A size of 0 is the default, and left out.
    if (size === 0) writer.uint32(0)
    else {
      writer.uint32(1 + varintBytes(size))
      writer.integerField(1, size)
    }
  }
  writer.endNested(outer)
}

/** No dimension of a tensor in memory has more than 53 bits. */
function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) bytes++
  return bytes
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

type WriteElement = (writer: ProtobufWriter, view: DataView, index: number) => void

const writeElement: Partial<Record<DataType, WriteElement>> = {
  INT32: (writer, view, i) => writer.varint(view.getInt32(i * 4, true)),
  INT16: (writer, view, i) => writer.varint(view.getInt16(i * 2, true)),
  INT8: (writer, view, i) => writer.varint(view.getInt8(i)),
  UINT8: (writer, view, i) => writer.uint32(view.getUint8(i)),
  UINT16: (writer, view, i) => writer.uint32(view.getUint16(i * 2, true)),
  FP16: (writer, view, i) => writer.uint32(view.getUint16(i * 2, true)),
  BF16: (writer, view, i) => writer.uint32(view.getUint16(i * 2, true)),
  UINT32: (writer, view, i) => writer.uint32(view.getUint32(i * 4, true)),
  INT64: (writer, view, i) => writer.varint(view.getBigInt64(i * 8, true)),
  UINT64: (writer, view, i) => writer.varint(view.getBigUint64(i * 8, true)),
}

function* packedList({ dataType, bytes }: Tensor): Generator<void, Uint8Array> {
  const view = viewOf(bytes)
  const write = writeElement[dataType] as WriteElement
  const count = bytes.length / elementBytes[dataType]
  const writer = new ProtobufWriter(Math.min(bytes.length * 2, 1024 * 1024))
  for (let i = 0; i < count; i++) {
    write(writer, view, i)
    if (i % stepElements === stepElements - 1) yield
  }
  return writer.finish()
}

function* textFields(bytes: Uint8Array): Generator<void, Uint8Array> {
  const writer = new ProtobufWriter(bytes.length + 64)
  for (let at = 0; at + 4 <= bytes.length;) {
    at = writeTexts(writer, bytes, at, stepElements)
    yield
  }
  return writer.finish()
}

/** Writes up to `most` texts from `from` on, each a field of its own. Returns where the next one is. */
function writeTexts(writer: ProtobufWriter, bytes: Uint8Array, from: number, most: number): number {
  const view = viewOf(bytes)
  let at = from
  for (let left = most; left > 0 && at + 4 <= bytes.length; left--) {
    const end = at + 4 + view.getUint32(at, true)
    writer.tag(listField.BYTES, 2)
    writer.raw(bytes.subarray(at + 4, end))
    at = end
  }
  return at
}
