// tensorflow.TensorProto → Tensor. A TensorProto has its elements as raw bytes (`tensor_content`) or as a list of the type's
// own, packed or not; a list that is shorter than the shape goes on with its last element.

import { lastOf } from '../../base/run-in-slices.ts'
import type { ServerError } from '../../base/server-error.ts'
import { malformed, noReaderLimits, ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { elementBytes, type DataType } from '../../tensor/data-type.ts'
import { repeatLast } from '../../tensor/repeat-last.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { elementWriters, writeElements } from '../grpc/infer-contents.ts'
import { tooManyDimensions } from '../request-limits.ts'
import { invalid } from './predict-request.ts'
import { dataTypeOfTensorflow, listField } from './tensorflow-type.ts'

type TensorProtoLimits = {
  readonly maxRank: number
  /** The most bytes of one tensor. */
  readonly maxBytes: number
  /** Called before memory is taken that the message itself does not have. Throws where there is no room. */
  readonly reserve: (bytes: number) => void
}

/** Fields and elements that are read in one step: less than a millisecond. */
const stepElements = 32 * 1024
/** Fields of a shape, which are read in one step. */
const mostShapeFields = 1024
const startGroup = 3

const firstListTag = 5 * 8
const textTag = listField('BYTES') * 8 + 2
/** The tags of the lists whose packed form has the bytes of a tensor. */
const packedFloats: Partial<Record<DataType, number>> = {
  FP32: listField('FP32') * 8 + 2,
  FP64: listField('FP64') * 8 + 2,
}
/** Of one element that stands alone. */
const wireTypes: Partial<Record<DataType, number>> = { FP32: 5, FP64: 1, BYTES: 2 }

/** Reads in steps, so that others are served between them. A small tensor has one step. HOT: once per input. */
export class TensorProtoReader {
  readonly #name: string
  readonly #reader: ProtobufReader
  readonly #limits: TensorProtoLimits
  readonly #shape: number[] = []
  #type = 0
  #contentAt = 0
  #contentEnd = 0
  /** Where the tag of the first element in a list is; -1: none was seen. */
  #listAt = -1
  /** How many fields hold elements. */
  #listFields = 0
  /** The bytes of the last of them, where it is a packed list. */
  #packedAt = 0
  #packedEnd = 0
  #textCount = 0
  /** Of all texts with their lengths, and of the last one. */
  #textBytes = 0
  #lastTextBytes = 4

  /** The message lies in `bytes` from `start` to `end`. */
  constructor(name: string, bytes: Buffer, start: number, end: number, limits: TensorProtoLimits) {
    this.#name = name
    this.#reader = new ProtobufReader(bytes, start, end, noReaderLimits)
    this.#limits = limits
  }

  /** Null: the message is large, or its elements have to be copied; then `readInSteps` goes on. Throws INVALID_ARG. */
  readAtOnce(): Tensor | null {
    if (!this.#noteFields()) return null
    const elements = this.#elementsAtOnce()
    return elements === null ? null : new Tensor(this.#name, this.#dataType, this.#shape, elements)
  }

  /** Throws INVALID_ARG. */
  *readInSteps(): Generator<void, Tensor> {
    while (!this.#noteFields()) yield
    const elements = this.#elementsAtOnce() ?? (yield* this.#hasTextContent ? this.#textsOf() : this.#readList())
    return new Tensor(this.#name, this.#dataType, this.#shape, elements)
  }

  get #dataType(): DataType {
    const dataType = dataTypeOfTensorflow(this.#type)
    if (dataType === null) throw this.#wrong(`data type ${this.#type} is not supported`)
    return dataType
  }

  #wrong(what: string): ServerError {
    return invalid(`tensor parsing error: ${this.#name}: ${what}`)
  }

  /** True when all fields are seen. */
  #noteFields(): boolean {
    const reader = this.#reader
    for (let left = stepElements; left > 0 && reader.at < reader.end; left--) this.#noteField(reader)
    return reader.at >= reader.end
  }

  #noteField(reader: ProtobufReader): void {
    const { at } = reader
    const tag = reader.tag()
    if (tag === 8) this.#type = reader.uint32()
    else if (tag === 18) this.#readShape(reader)
    else if (tag === 34) {
      this.#contentEnd = reader.lengthEnd()
      this.#contentAt = reader.at
      reader.at = this.#contentEnd
    } else if (tag < firstListTag) skipField(reader, tag)
    else {
      if (this.#listAt < 0) this.#listAt = at
      this.#listFields++
      if ((tag & 7) === 2) this.#notePacked(reader, tag)
      else skipField(reader, tag)
    }
  }

  #notePacked(reader: ProtobufReader, tag: number): void {
    this.#packedEnd = reader.lengthEnd()
    this.#packedAt = reader.at
    reader.at = this.#packedEnd
    if (tag !== textTag) return
    this.#textCount++
    this.#lastTextBytes = 4 + this.#packedEnd - this.#packedAt
    this.#textBytes += this.#lastTextBytes
  }

  /** TensorShapeProto: dim 2 (size 1), unknown_rank 3. */
  #readShape(reader: ProtobufReader): void {
    const { maxRank } = this.#limits
    const outer = reader.enter()
    for (let left = mostShapeFields; reader.isInside(outer); left--) {
      if (left === 0) throw this.#wrong(`its shape has more than ${mostShapeFields} fields`)
      const tag = reader.tag()
      if (tag === 18) {
        if (this.#shape.length >= maxRank) throw tooManyDimensions(maxRank)
        this.#shape.push(readSize(reader))
      } else if (tag === 24 && reader.bool()) throw this.#wrong('its shape has an unknown rank')
      else if (tag !== 24) skipField(reader, tag)
    }
  }

  get #count(): number {
    const { maxBytes } = this.#limits
    const shape = this.#shape
    let count = 1
    for (let i = 0; i < shape.length; i++) {
      const size = shape[i] as number
      if (size < 0) throw this.#wrong(`its shape [${shape.join(',')}] has a negative dimension`)
      count *= size
    }
    // A text has its length in front of it, four bytes.
    const least = count * (elementBytes[this.#dataType] || 4)
    if (least <= maxBytes) return count
    throw this.#wrong(`its shape [${shape.join(',')}] needs ${least} bytes, at most ${maxBytes} are taken`)
  }

  /** The elements where their bytes lie in the message as a tensor has them, or as raw bytes; else null. */
  #elementsAtOnce(): Uint8Array | null {
    const dataType = this.#dataType
    const count = this.#count
    const { bytes } = this.#reader
    const byteSize = count * elementBytes[dataType]
    const contentSize = this.#contentEnd - this.#contentAt
    if (contentSize > 0) {
      const content = bytes.subarray(this.#contentAt, this.#contentEnd)
      if (dataType === 'BYTES') return count <= stepElements ? lastOf(this.#textsOf()) : null
      if (contentSize === byteSize) return content
      throw this.#wrong(`tensor_content has ${contentSize} bytes, the shape needs ${byteSize}`)
    }
    // Packed floats are the bytes of the tensor.
    const packedSize = this.#packedEnd - this.#packedAt
    const isWhole = this.#listFields === 1 && packedSize > 0 && packedSize === byteSize
    if (!isWhole || bytes[this.#listAt] !== packedFloats[dataType]) return null
    return bytes.subarray(this.#packedAt, this.#packedEnd)
  }

  get #hasTextContent(): boolean {
    return this.#contentEnd > this.#contentAt && this.#dataType === 'BYTES'
  }

  /** As TensorFlow packs texts into raw bytes: all lengths, then all texts. */
  *#textsOf(): Generator<void, Uint8Array> {
    const count = this.#count
    const content = this.#reader.bytes.subarray(this.#contentAt, this.#contentEnd)
    const reader = new ProtobufReader(content, 0, content.length, noReaderLimits)
    if (count > content.length) throw this.#wrong(`tensor_content has ${content.length} bytes for ${count} texts`)
    // Four bytes for a length here and four in the tensor, where the message may have one.
    if (count > stepElements) this.#limits.reserve(count * 8)
    const lengths = new Uint32Array(count)
    let total = 0
    for (let i = 0; i < count; i++) {
      total += lengths[i] = reader.uint32()
      if (i % stepElements === stepElements - 1) yield
    }
    if (total !== content.length - reader.at) {
      throw this.#wrong('the lengths of its texts are not those of tensor_content')
    }
    const bytes = Buffer.allocUnsafe(total + count * 4)
    let at = 0
    for (let i = 0; i < count; i++) {
      const length = lengths[i] as number
      at = bytes.writeUInt32LE(length, at)
      at += length === 0 ? 0 : content.copy(bytes, at, reader.at, reader.at + length)
      reader.at += length
      if (i % stepElements === stepElements - 1) yield
    }
    return bytes
  }

  /** Reads the list of the type. As in TensorFlow, elements beyond the shape are not looked at. */
  *#readList(): Generator<void, Uint8Array> {
    const dataType = this.#dataType
    const count = this.#count
    const target = { bytes: this.#memoryOf(dataType, count), at: 0 }
    const reader = this.#reader
    reader.at = this.#listAt < 0 ? reader.end : this.#listAt
    const list = {
      field: listField(dataType),
      wireType: wireTypes[dataType] ?? 0,
      most: count,
      misfit: (_: ProtobufReader, tag: number) => {
        if (dataType !== 'BYTES') throw this.#wrong('its elements have another wire type than their field')
        reader.skip(tag)
      },
    }
    const found = yield* writeElements(reader, list, elementWriters[dataType], target)
    if (found >= count) return target.bytes.subarray(0, target.at)
    if (found > 0) yield* repeatLast(target.bytes, target.at, elementBytes[dataType] || this.#lastTextBytes)
    return target.bytes
  }

  /** Zeroed: a list without elements stands for zeros. */
  #memoryOf(dataType: DataType, count: number): Buffer {
    const { maxBytes, reserve } = this.#limits
    const missing = Math.max(0, count - this.#textCount)
    const size = dataType === 'BYTES' ? this.#textBytes + missing * this.#lastTextBytes : count * elementBytes[dataType]
    if (size > maxBytes) throw this.#wrong(`its texts take ${size} bytes, at most ${maxBytes} are taken`)
    const { end } = this.#reader
    if (size > end - (this.#listAt < 0 ? end : this.#listAt)) reserve(size)
    return Buffer.alloc(size)
  }
}

/** What is in a group is skipped field by field, and that takes as long as the group is. No TensorProto has one. */
function skipField(reader: ProtobufReader, tag: number): void {
  if ((tag & 7) === startGroup) throw malformed('it has a group')
  reader.skip(tag)
}

function readSize(reader: ProtobufReader): number {
  const outer = reader.enter()
  let size = 0
  for (let left = mostShapeFields; reader.isInside(outer); left--) {
    if (left === 0) throw malformed(`a dimension has more than ${mostShapeFields} fields`)
    const tag = reader.tag()
    if (tag === 8) size = reader.int64Number()
    else skipField(reader, tag)
  }
  return size
}
