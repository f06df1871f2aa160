// tensorflow.TensorProto ⇄ Tensor. A TensorProto has its elements as raw bytes (`tensor_content`) or as a list of the type's
// own, packed or not; a list that is shorter than the shape goes on with its last element.

import type { ServerError } from '../../base/server-error.ts'
import { noReaderLimits, ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { ProtobufWriter, smallBytes } from '../../protobuf/protobuf-writer.ts'
import { elementBytes, type DataType } from '../../tensor/data-type.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { tooManyDimensions } from '../request-limits.ts'
import { invalid } from './predict-request.ts'
import { dataTypeOfTensorflow, tensorflowNumber } from './tensorflow-type.ts'

type TensorProtoLimits = {
  readonly maxRank: number
  /** The most bytes of one tensor. */
  readonly maxBytes: number
  /** Called before memory is taken that the message itself does not have. Throws where there is no room. */
  readonly reserve: (bytes: number) => void
}

/** Elements that are read or written in one step: less than a millisecond. */
const stepElements = 32 * 1024

/** The number of the field that holds the elements of a type. */
const listField: Readonly<Record<DataType, number>> = {
  FP32: 5,
  FP64: 6,
  INT32: 7,
  INT16: 7,
  INT8: 7,
  UINT8: 7,
  UINT16: 7,
  BYTES: 8,
  INT64: 10,
  BOOL: 11,
  FP16: 13,
  BF16: 13,
  UINT32: 16,
  UINT64: 17,
}

/** Reads in steps, so that others are served between them. Throws INVALID_ARG. HOT: small tensors have one step. */
export function* readTensorProto(name: string, bytes: Buffer, limits: TensorProtoLimits): Generator<void, Tensor> {
  const parsing = (what: string): ServerError => invalid(`tensor parsing error: ${name}: ${what}`)
  const reader = new ProtobufReader(bytes, 0, bytes.length, noReaderLimits)
  let type = 0
  let content: Buffer | null = null
  const shape: number[] = []
  let fields = 0
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 8) type = reader.uint32()
    else if (tag === 18) readShape(reader, shape, limits, parsing)
    else if (tag === 34) content = reader.view()
    else reader.skip(tag)
    if (++fields % stepElements === 0) yield
  }
  const dataType = dataTypeOfTensorflow(type)
  if (dataType === null) throw parsing(`data type ${type} is not supported`)
  const count = countOf(shape, dataType, limits, parsing)
  const width = elementBytes[dataType]
  if (content !== null && content.length > 0) {
    if (width === 0) return new Tensor(name, dataType, shape, decodeStringList(content, count, parsing))
    if (content.length !== count * width) {
      throw parsing(`tensor_content has ${content.length} bytes, the shape needs ${count * width}`)
    }
    return new Tensor(name, dataType, shape, content)
  }
  const elements =
    width === 0
      ? yield* readTexts(bytes, count, limits, parsing)
      : yield* readNumbers(bytes, dataType, count, limits, parsing)
  return new Tensor(name, dataType, shape, elements)
}

type Parsing = (what: string) => ServerError

/** TensorShapeProto: dim 2 (size 1), unknown_rank 3. */
function readShape(reader: ProtobufReader, shape: number[], { maxRank }: TensorProtoLimits, parsing: Parsing): void {
  const outer = reader.end
  reader.end = reader.lengthEnd()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 18) {
      if (shape.length >= maxRank) throw tooManyDimensions(maxRank)
      const inner = reader.end
      reader.end = reader.lengthEnd()
      let size = 0
      while (reader.at < reader.end) {
        const field = reader.tag()
        if (field === 8) size = reader.int64Number()
        else reader.skip(field)
      }
      reader.end = inner
      shape.push(size)
    } else if (tag === 24 && reader.bool()) throw parsing('its shape has an unknown rank')
    else if (tag !== 24) reader.skip(tag)
  }
  reader.end = outer
}

function countOf(
  shape: readonly number[],
  dataType: DataType,
  { maxBytes }: TensorProtoLimits,
  parsing: Parsing,
): number {
  let count = 1
  for (const size of shape) {
    if (size < 0) throw parsing(`its shape [${shape.join(',')}] has a negative dimension`)
    count *= size
  }
  const size = count * Math.max(4, elementBytes[dataType])
  // A text has its length in front of it, four bytes.
  const least = elementBytes[dataType] === 0 ? size : count * elementBytes[dataType]
  if (!(least <= maxBytes)) {
    throw parsing(`its shape [${shape.join(',')}] needs ${least} bytes, at most ${maxBytes} are taken`)
  }
  return count
}

/** As TensorFlow packs texts into raw bytes: all lengths, then all texts. */
function decodeStringList(content: Buffer, count: number, parsing: Parsing): Uint8Array {
  const reader = new ProtobufReader(content, 0, content.length, noReaderLimits)
  if (count > content.length) throw parsing(`tensor_content has ${content.length} bytes for ${count} texts`)
  const lengths = Array.from({ length: count }, () => reader.uint32())
  const total = lengths.reduce((sum, length) => sum + length, 0)
  if (total !== content.length - reader.at) throw parsing('the lengths of its texts are not those of tensor_content')
  const bytes = Buffer.allocUnsafe(total + count * 4)
  let at = 0
  for (const length of lengths) {
    at = bytes.writeUInt32LE(length, at)
    at += content.copy(bytes, at, reader.at, reader.at + length)
    reader.at += length
  }
  return bytes
}

type ReadElement = (reader: ProtobufReader, view: DataView, at: number) => void

const readElement: Readonly<Record<Exclude<DataType, 'BYTES'>, ReadElement>> = {
  FP32: (reader, view, at) => view.setFloat32(at, reader.float(), true),
  FP64: (reader, view, at) => view.setFloat64(at, reader.double(), true),
  INT32: (reader, view, at) => view.setInt32(at, reader.int32(), true),
  INT16: (reader, view, at) => view.setInt16(at, reader.int32(), true),
  INT8: (reader, view, at) => view.setInt8(at, reader.int32()),
  UINT8: (reader, view, at) => view.setUint8(at, reader.int32()),
  UINT16: (reader, view, at) => view.setUint16(at, reader.int32(), true),
  INT64: (reader, view, at) => view.setBigInt64(at, reader.int64(), true),
  BOOL: (reader, view, at) => view.setUint8(at, reader.bool() ? 1 : 0),
  FP16: (reader, view, at) => view.setUint16(at, reader.uint32(), true),
  BF16: (reader, view, at) => view.setUint16(at, reader.uint32(), true),
  UINT32: (reader, view, at) => view.setUint32(at, reader.uint32(), true),
  UINT64: (reader, view, at) => view.setBigUint64(at, reader.uint64(), true),
}
const wireTypeOf = (dataType: DataType): number => (dataType === 'FP32' ? 5 : dataType === 'FP64' ? 1 : 0)

function* readNumbers(
  bytes: Buffer,
  dataType: DataType,
  count: number,
  limits: TensorProtoLimits,
  parsing: Parsing,
): Generator<void, Uint8Array> {
  const width = elementBytes[dataType]
  const field = listField[dataType]
  const reader = new ProtobufReader(bytes, 0, bytes.length, noReaderLimits)
  const read = readElement[dataType as Exclude<DataType, 'BYTES'>]
  const whole = reader.end
  let target: Buffer | null = null
  let view: DataView | null = null
  let index = 0
  const take = (): void => {
    if (target === null || view === null) {
      target = newElements(count * width, bytes.length, limits)
      view = new DataView(target.buffer, target.byteOffset, target.byteLength)
    }
    // As in TensorFlow, elements beyond the shape are not looked at.
    if (index < count) read(reader, view, index * width)
    else read(reader, scratch, 0)
    index++
  }
  while (reader.at < whole) {
    const tag = reader.tag()
    if (tag >>> 3 !== field) reader.skip(tag)
    else if ((tag & 7) === 2) {
      const end = reader.lengthEnd()
      // Packed floats are the bytes of the tensor.
      if (
        index === 0 &&
        (width === 4 || width === 8) &&
        dataType.startsWith('FP') &&
        end - reader.at === count * width
      ) {
        const start = reader.at
        reader.at = end
        if (end === whole) return bytes.subarray(start, end)
        reader.at = start
      }
      reader.end = end
      while (reader.at < reader.end) {
        take()
        if (index % stepElements === 0) yield
      }
      reader.end = whole
    } else {
      if ((tag & 7) !== wireTypeOf(dataType)) throw parsing('its elements have another wire type than their field')
      take()
      if (index % stepElements === 0) yield
    }
  }
  const filled = target ?? newElements(count * width, bytes.length, limits)
  yield* fillWithLast(filled, Math.min(index, count) * width, width)
  return filled
}

const scratch = new DataView(new ArrayBuffer(8))

/** Zeroed: a list without elements stands for zeros. */
function newElements(size: number, messageBytes: number, { reserve }: TensorProtoLimits): Buffer {
  if (size > messageBytes) reserve(size)
  return Buffer.alloc(size)
}

/** Doubles what is there until the end, from the last element on. */
function* fillWithLast(bytes: Buffer, filled: number, width: number): Generator<void, void> {
  if (filled === 0 || filled >= bytes.length) return
  const start = filled - width
  let length = width
  while (start + length < bytes.length) {
    const more = Math.min(length, bytes.length - start - length, 8 * 1024 * 1024)
    bytes.copyWithin(start + length, start, start + more)
    length += more
    if (length > 4 * 1024 * 1024) yield
  }
}

function* readTexts(
  bytes: Buffer,
  count: number,
  limits: TensorProtoLimits,
  parsing: Parsing,
): Generator<void, Uint8Array> {
  const reader = new ProtobufReader(bytes, 0, bytes.length, noReaderLimits)
  const texts: Buffer[] = []
  let total = 0
  let fields = 0
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag !== 66 || texts.length === count) reader.skip(tag)
    else {
      const text = reader.view()
      texts.push(text)
      total += 4 + text.length
    }
    if (++fields % stepElements === 0) yield
  }
  const last = texts.at(-1) ?? noBytes
  const size = total + (count - texts.length) * (4 + last.length)
  if (size > limits.maxBytes) throw parsing(`its texts take ${size} bytes, at most ${limits.maxBytes} are taken`)
  const elements = newElements(size, bytes.length, limits)
  let at = 0
  for (let i = 0; i < count; i++) {
    const text = texts[i] ?? last
    at = elements.writeUInt32LE(text.length, at)
    at += text.copy(elements, at)
    if (i % stepElements === stepElements - 1) yield
  }
  return elements
}

const noBytes = Buffer.alloc(0)

/** One entry of the map of outputs: key 1, TensorProto 2. Large floats follow as a view. HOT: once per output. */
export function* writeTensorEntry(
  writer: ProtobufWriter,
  field: number,
  tensor: Tensor,
  asContent: boolean,
): Generator<void, void> {
  const { dataType, bytes } = tensor
  // Floats and booleans have the same bytes in a packed list as in a tensor.
  const isPayload = dataType !== 'BYTES' && (asContent || writeElement[dataType] === undefined)
  const payload = isPayload ? bytes : yield* payloadOf(tensor)
  // Texts are fields each, and stand in the payload with their tags. Other payloads have a tag and a length.
  const hasLength = dataType !== 'BYTES' && bytes.length > 0
  const payloadField = !hasLength ? 0 : asContent ? 4 : listField[dataType]
  if (payload.length <= smallBytes) {
    const entry = writer.beginNested(field)
    writer.textField(1, tensor.name)
    const inner = writer.beginNested(2)
    writeTensorHead(writer, tensor, payloadField)
    if (hasLength) writer.raw(payload)
    else writer.copy(payload)
    writer.endNested(inner)
    writer.endNested(entry)
    return
  }
  // A view cannot stand inside `nested`, so the lengths are written before what they count.
  const head = new ProtobufWriter(32 + tensor.shape.length * 8)
  writeTensorHead(head, tensor, payloadField)
  const tensorBytes = head.length + payload.length + (hasLength ? varintBytes(payload.length) : 0)
  const key = new ProtobufWriter(16 + tensor.name.length * 3)
  key.textField(1, tensor.name)
  key.tag(2, 2)
  key.uint32(tensorBytes)
  writer.tag(field, 2)
  writer.uint32(key.length + tensorBytes)
  writer.copy(key.finish())
  writer.copy(head.finish())
  if (hasLength) writer.rawOrView(payload)
  else writer.copy(payload)
}

/** dtype 1, tensor_shape 2 (dim 2 (size 1)), and the tag of the elements; 0: they bring their own. */
function writeTensorHead(writer: ProtobufWriter, { dataType, shape }: Tensor, payloadField: number): void {
  writer.integerField(1, tensorflowNumber(dataType))
  const outer = writer.beginNested(2)
  for (let i = 0; i < shape.length; i++) {
    const size = shape[i] as number
    const start = writer.beginNested(2)
    // A size of 0 is the default, and left out.
    if (size !== 0) writer.integerField(1, size)
    writer.endNested(start)
  }
  writer.endNested(outer)
  if (payloadField !== 0) writer.tag(payloadField, 2)
}

const varintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5

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

function* payloadOf({ dataType, bytes }: Tensor): Generator<void, Uint8Array> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (dataType === 'BYTES') return yield* textFields(bytes, view)
  const write = writeElement[dataType]
  if (write === undefined) return bytes
  const count = bytes.length / elementBytes[dataType]
  const writer = new ProtobufWriter(Math.max(16, Math.min(bytes.length * 2, 1024 * 1024)))
  for (let i = 0; i < count; i++) {
    write(writer, view, i)
    if (i % stepElements === stepElements - 1) yield
  }
  return writer.finish()
}

function* textFields(bytes: Uint8Array, view: DataView): Generator<void, Uint8Array> {
  const writer = new ProtobufWriter(bytes.length + 64)
  let index = 0
  for (let at = 0; at + 4 <= bytes.length;) {
    const length = view.getUint32(at, true)
    writer.tag(8, 2)
    writer.raw(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
    if (++index % stepElements === 0) yield
  }
  return writer.finish()
}
