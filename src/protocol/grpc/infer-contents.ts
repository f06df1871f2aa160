// InferTensorContents → the bytes of a tensor. The first walk counts, the second writes into a buffer of that size, so
// that no object is kept per element. Memory: the tensor itself, at most eight bytes per byte received.

import { lastOf } from '../../base/run-in-slices.ts'
import { ServerError } from '../../base/server-error.ts'
import { elementBytes, isDataType, type DataType } from '../../tensor/data-type.ts'
import { malformed, noReaderLimits, ProtobufReader } from '../../protobuf/protobuf-reader.ts'

/** Field number → its name in Triton's messages, in the order in which Triton looks at them. */
const contentTypes: readonly string[] = ['', 'BOOL', 'INT32', 'INT64', 'UINT32', 'UINT64', 'FP32', 'FP64', 'BYTES']
const fieldCount = 8

/** Which data types each field may fill; wider values are narrowed. */
const fillable: readonly (readonly string[])[] = [
  [],
  ['BOOL'],
  ['INT8', 'INT16', 'INT32'],
  ['INT64'],
  ['UINT8', 'UINT16', 'UINT32'],
  ['UINT64'],
  ['FP32'],
  ['FP64'],
  ['BYTES'],
]

/** Wire type of one element of each field. */
const elementWireType: readonly number[] = [0, 0, 0, 0, 0, 0, 5, 1, 2]

/** A step walks at most so many bytes or elements, for about a millisecond. */
const stepSize = 32 * 1024
/** A step copies at most so many bytes. Copying costs less than walking. */
const copyBytes = 1024 * 1024

/** `what` is "input tensor 'X' for model 'M'" of Triton's refusals. */
export function encodeContents(contents: readonly Buffer[], dataType: string, what: string): Uint8Array {
  return lastOf(encodeContentsInSteps(contents, dataType, what))
}

/** As `encodeContents`, in steps; other requests may run between the steps. */
export function* encodeContentsInSteps(
  contents: readonly Buffer[],
  dataType: string,
  what: string,
): Generator<void, Uint8Array> {
  const counts = Array.from({ length: fieldCount + 1 }, () => 0)
  let textBytes = 0
  for (const part of contents) textBytes += yield* countElements(part, counts)
  const field = chooseField(counts, dataType, what)
  if (field === 0) return new Uint8Array(0)
  const count = counts[field] as number
  const byteLength = field === 8 ? count * 4 + textBytes : count * elementBytes[dataType as DataType]
  const target = { bytes: Buffer.allocUnsafe(byteLength), at: 0 }
  const write = elementWriters[dataType as DataType]
  for (const part of contents) {
    const reader = new ProtobufReader(part, 0, part.length, noReaderLimits)
    const list = { field, wireType: elementWireType[field] as number, most: count, misfit: skipMisfit }
    yield* writeElements(reader, list, write, target)
  }
  return target.bytes
}

/** The one field with elements; 0 when none has any. Throws as Triton does, in its order. */
function chooseField(counts: readonly number[], dataType: string, what: string): number {
  let chosen = 0
  for (let field = 1; field <= fieldCount; field++) {
    if (counts[field] === 0) continue
    if (chosen !== 0) {
      throw refusal(`unexpected explicit tensor data for ${what}, binary data was already supplied.`)
    }
    if (!(fillable[field] as readonly string[]).includes(dataType)) {
      const expected = isDataType(dataType) ? dataType : '<invalid>'
      throw refusal(
        `unexpected explicit tensor data for ${what} of type '${contentTypes[field]}', expected datatype '${expected}'`,
      )
    }
    chosen = field
  }
  return chosen
}

const refusal = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

/** Adds up the elements of each field; returns the bytes of all texts. */
function* countElements(part: Buffer, counts: number[]): Generator<void, number> {
  const reader = new ProtobufReader(part, 0, part.length, noReaderLimits)
  let textBytes = 0
  let visited = 0
  while (reader.at < reader.end) {
    if (++visited % stepSize === 0) yield
    const tag = reader.tag()
    const field = tag >>> 3
    const wireType = tag & 7
    if (field > fieldCount) reader.skip(tag)
    else if (field === 8 && wireType === 2) {
      const end = reader.lengthEnd()
      textBytes += end - reader.at
      reader.at = end
      counts[8] = (counts[8] as number) + 1
    } else if (wireType === elementWireType[field]) {
      reader.skip(tag)
      counts[field] = (counts[field] as number) + 1
    } else if (wireType === 2) counts[field] = (counts[field] as number) + (yield* countPacked(reader, field))
    else reader.skip(tag)
  }
  return textBytes
}

function* countPacked(reader: ProtobufReader, field: number): Generator<void, number> {
  const end = reader.lengthEnd()
  const start = reader.at
  reader.at = end
  const wireType = elementWireType[field]
  if (wireType === 5) return countFixed(end - start, 4)
  if (wireType === 1) return countFixed(end - start, 8)
  const { bytes } = reader
  let count = 0
  let size = 0
  for (let from = start; from < end; from += stepSize) {
    const to = Math.min(end, from + stepSize)
    for (let at = from; at < to; at++) {
      size++
      if ((bytes[at] as number) >= 0x80) continue
      if (size > 10) throw malformed('a number has more than ten bytes')
      count++
      size = 0
    }
    if (to < end) yield
  }
  if (size > 0) throw malformed('it ends in the middle of a number')
  return count
}

function countFixed(byteLength: number, size: number): number {
  if (byteLength % size !== 0) throw malformed('it ends in the middle of a number')
  return byteLength / size
}

/** Where the elements of a message are. */
type ElementList = {
  readonly field: number
  /** Of one element that stands alone. */
  readonly wireType: number
  /** What comes beyond is passed over. */
  readonly most: number
  /** Called for a field of that number with another wire type, behind its tag. */
  readonly misfit: (reader: ProtobufReader, tag: number) => void
}

const skipMisfit: ElementList['misfit'] = (reader, tag) => reader.skip(tag)

/** Writes each element from where the reader stands into its place in `target`. Returns how many there were, in steps. */
export function* writeElements(
  reader: ProtobufReader,
  { field, wireType, most, misfit }: ElementList,
  write: ElementWriter,
  target: Target,
): Generator<void, number> {
  const { end } = reader
  let count = 0
  let visited = 0
  while (reader.at < end) {
    if (++visited % stepSize === 0) yield
    const tag = reader.tag()
    if (tag >>> 3 !== field) reader.skip(tag)
    else if ((tag & 7) === wireType) {
      if (count++ < most) write(reader, target)
      else reader.skip(tag)
    } else if ((tag & 7) === 2) {
      reader.end = reader.lengthEnd()
      if (wireType === 0) count += yield* writePacked(reader, most - count, write, target)
      else count += yield* copyPacked(reader, most - count, wireType === 1 ? 8 : 4, target)
      reader.end = end
    } else misfit(reader, tag)
  }
  return count
}

function* writePacked(
  reader: ProtobufReader,
  most: number,
  write: ElementWriter,
  target: Target,
): Generator<void, number> {
  let count = 0
  while (reader.at < reader.end) {
    const stepEnd = count + stepSize
    const wantedEnd = Math.min(most, stepEnd)
    for (; count < wantedEnd && reader.at < reader.end; count++) write(reader, target)
    for (; count < stepEnd && reader.at < reader.end; count++) reader.skip(0)
    if (reader.at < reader.end) yield
  }
  return count
}

/** Numbers of fixed size have the same bytes in the message and in a tensor. */
function* copyPacked(reader: ProtobufReader, most: number, width: number, target: Target): Generator<void, number> {
  const count = countFixed(reader.end - reader.at, width)
  const wanted = reader.at + Math.max(0, Math.min(count, most)) * width
  while (reader.at < wanted) {
    const to = Math.min(wanted, reader.at + copyBytes)
    reader.bytes.copy(target.bytes, target.at, reader.at, to)
    target.at += to - reader.at
    reader.at = to
    if (to < wanted) yield
  }
  reader.at = reader.end
  return count
}

type Target = { readonly bytes: Buffer; at: number }
/** Writes the element at which the reader stands. */
type ElementWriter = (reader: ProtobufReader, target: Target) => void

const writeText: ElementWriter = (reader, target) => {
  const text = reader.view()
  target.at = target.bytes.writeUInt32LE(text.length, target.at)
  target.bytes.set(text, target.at)
  target.at += text.length
}
const writeWord: ElementWriter = (reader, target) => {
  target.at = target.bytes.writeUInt32LE(reader.uint32(), target.at)
}
const writeHalf: ElementWriter = (reader, target) => {
  target.at = target.bytes.writeUInt16LE(reader.uint32() & 0xffff, target.at)
}
const writeByte: ElementWriter = (reader, target) => {
  target.bytes[target.at++] = reader.uint32() & 0xff
}
const writeLong: ElementWriter = (reader, target) => {
  target.at = target.bytes.writeBigUInt64LE(reader.uint64(), target.at)
}

/** The halves of FP16 and BF16 are in no field of Triton's message; other protocols have them as integers. */
export const elementWriters: Readonly<Record<DataType, ElementWriter>> = {
  BYTES: writeText,
  BOOL: (reader, target) => {
    target.bytes[target.at++] = reader.bool() ? 1 : 0
  },
  INT8: writeByte,
  UINT8: writeByte,
  INT16: writeHalf,
  UINT16: writeHalf,
  FP16: writeHalf,
  BF16: writeHalf,
  INT32: writeWord,
  UINT32: writeWord,
  INT64: writeLong,
  UINT64: writeLong,
  FP32: (reader, target) => {
    target.at = target.bytes.writeUInt32LE(reader.fixed32(), target.at)
  },
  FP64: (reader, target) => {
    target.at = target.bytes.writeBigUInt64LE(reader.fixed64(), target.at)
  },
}
