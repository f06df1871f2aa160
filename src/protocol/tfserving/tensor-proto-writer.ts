// Tensor → tensorflow.TensorProto, as an entry of the map of outputs.

import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import { elementsOf, type DataType, type FixedSizeType } from '../../tensor/data-type.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { listField, tensorflowNumber } from './tensorflow-type.ts'

/** Elements that are written in one step: less than a millisecond. */
const stepElements = 32 * 1024

const contentField = 4

/** These have the same bytes in a packed list as in a tensor. */
const packedAsTheyAre: ReadonlySet<DataType> = new Set(['FP32', 'FP64', 'BOOL'])

export const areBytesOfTensor = ({ dataType }: Tensor, asContent: boolean): boolean =>
  asContent ? dataType !== 'BYTES' : packedAsTheyAre.has(dataType)

/** The elements as the message has them, made in steps. */
export function* elementsToWrite(tensor: Tensor, asContent: boolean): Generator<void, Uint8Array> {
  if (areBytesOfTensor(tensor, asContent)) return tensor.bytes
  return yield* tensor.dataType === 'BYTES' ? textFields(tensor.bytes) : packedList(tensor)
}

/** One entry of the map of outputs: key 1, TensorProto 2. HOT: once per output. */
export function writeTensorEntry(
  writer: ProtobufWriter,
  field: number,
  tensor: Tensor,
  elements: Uint8Array,
  asContent: boolean,
): void {
  const { dataType, name } = tensor
  const entry = writer.beginNested(field)
  writer.textField(1, name)
  const inner = writer.beginNested(2)
  writeHead(writer, tensor)
  // Texts are fields each, and have their tags.
  if (dataType === 'BYTES') writer.fields(elements)
  else if (elements.length > 0) {
    writer.tag(asContent ? contentField : listField(dataType), 2)
    writer.rawOrView(elements)
  }
  writer.endNested(inner)
  writer.endNested(entry)
}

/** dtype 1, tensor_shape 2 (dim 2 (size 1)). */
function writeHead(writer: ProtobufWriter, { dataType, shape }: Tensor): void {
  writer.integerField(1, tensorflowNumber(dataType))
  const outer = writer.beginNested(2)
  for (let i = 0; i < shape.length; i++) {
    const size = shape[i] as number
    const dim = writer.beginNested(2)
    // A size of 0 is the default, and left out.
    if (size !== 0) writer.integerField(1, size)
    writer.endNested(dim)
  }
  writer.endNested(outer)
}

function* packedList({ dataType, bytes }: Tensor): Generator<void, Uint8Array> {
  const elements = elementsOf(dataType as FixedSizeType, bytes)
  const writer = new ProtobufWriter(Math.min(bytes.length * 2, 1024 * 1024))
  for (let i = 0; i < elements.length; i++) {
    writer.varint(elements[i] as number | bigint)
    if (i % stepElements === stepElements - 1) yield
  }
  return writer.finish()
}

/** Each text is a field of its own. */
function* textFields(bytes: Uint8Array): Generator<void, Uint8Array> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const writer = new ProtobufWriter(bytes.length + 64)
  for (let at = 0, count = 1; at + 4 <= bytes.length; count++) {
    const end = at + 4 + view.getUint32(at, true)
    writer.tag(listField('BYTES'), 2)
    writer.raw(bytes.subarray(at + 4, end))
    at = end
    if (count % stepElements === 0) yield
  }
  return writer.finish()
}
