// tensorflow.TensorProto → Tensor. A TensorProto has its elements as raw bytes (`tensor_content`) or as a list of the type's
// own, packed or not; a list that is shorter than the shape goes on with its last element.

import type { ServerError } from '../../base/server-error.ts'
import { noReaderLimits, ProtobufReader } from '../../protobuf/protobuf-reader.ts'
import { elementBytes, type DataType } from '../../tensor/data-type.ts'
import { Tensor } from '../../tensor/tensor.ts'
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
/** Bytes that are filled with the last element in one step. */
const stepBytes = 4 * 1024 * 1024

/** The elements of a tensor, read in steps. */
type Elements = {
  /** True when all are read. */
  step(): boolean
  readonly bytes: Uint8Array
}

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
  /** The bytes of that field, where it is a packed list. */
  #packedAt = 0
  #packedEnd = 0
  /** How many fields hold elements. */
  #listFields = 0
  #texts = { count: 0, bytes: 0, lastBytes: 4 }
  #elements: Elements | null = null

  /** The message lies in `bytes` from `start` to `end`. */
  constructor(name: string, bytes: Buffer, start: number, end: number, limits: TensorProtoLimits) {
    this.#name = name
    this.#reader = new ProtobufReader(bytes, start, end, noReaderLimits)
    this.#limits = limits
  }

  /** Null: there is more to read. Throws INVALID_ARG. */
  step(): Tensor | null {
    if (this.#elements === null) {
      if (!this.#readFields()) return null
      const tensor = this.#tensorAtOnce()
      if (tensor !== null) return tensor
    }
    const elements = this.#elements as Elements | null
    if (elements === null || !elements.step()) return null
    return new Tensor(this.#name, this.#dataType, this.#shape, elements.bytes)
  }

  #wrong(what: string): ServerError {
    return invalid(`tensor parsing error: ${this.#name}: ${what}`)
  }

  get #dataType(): DataType {
    const dataType = dataTypeOfTensorflow(this.#type)
    if (dataType === null) throw this.#wrong(`data type ${this.#type} is not supported`)
    return dataType
  }

  /** Notes where the elements are. True when all fields are seen. */
  #readFields(): boolean {
    const reader = this.#reader
    for (let left = stepElements; reader.at < reader.end; left--) {
      if (left === 0) return false
      const at = reader.at
      const tag = reader.tag()
      if (tag === 8) this.#type = reader.uint32()
      else if (tag === 18) this.#readShape(reader)
      else if (tag === 34) {
        this.#contentEnd = reader.lengthEnd()
        this.#contentAt = reader.at
        reader.at = this.#contentEnd
      } else if (tag >= firstListTag) this.#noteList(reader, tag, at)
      else reader.skip(tag)
    }
    return true
  }

  #noteList(reader: ProtobufReader, tag: number, at: number): void {
    if (this.#listAt < 0) this.#listAt = at
    this.#listFields++
    if ((tag & 7) !== 2) {
      reader.skip(tag)
      return
    }
    this.#packedEnd = reader.lengthEnd()
    this.#packedAt = reader.at
    reader.at = this.#packedEnd
    if (tag === textTag) this.#noteText(4 + this.#packedEnd - this.#packedAt)
  }

  #noteText(bytes: number): void {
    this.#texts.count++
    this.#texts.bytes += bytes
    this.#texts.lastBytes = bytes
  }

  /** TensorShapeProto: dim 2 (size 1), unknown_rank 3. */
  #readShape(reader: ProtobufReader): void {
    const { maxRank } = this.#limits
    const outer = reader.end
    reader.end = reader.lengthEnd()
    while (reader.at < reader.end) {
      const tag = reader.tag()
      if (tag === 18) {
        if (this.#shape.length >= maxRank) throw tooManyDimensions(maxRank)
        this.#shape.push(readSize(reader))
      } else if (tag === 24 && reader.bool()) throw this.#wrong('its shape has an unknown rank')
      else if (tag !== 24) reader.skip(tag)
    }
    reader.end = outer
  }

  /** The tensor where its bytes are those of the message; else null, and `#elements` reads them. */
  #tensorAtOnce(): Tensor | null {
    const dataType = this.#dataType
    const count = this.#count(dataType)
    const width = elementBytes[dataType]
    const { bytes } = this.#reader
    let [start, end] = [this.#contentAt, this.#contentEnd]
    if (end > start) {
      if (width === 0)
        return new Tensor(this.#name, dataType, this.#shape, this.#textsOf(bytes.subarray(start, end), count))
      if (end - start !== count * width) {
        throw this.#wrong(`tensor_content has ${end - start} bytes, the shape needs ${count * width}`)
      }
    } else {
      start = this.#packedAt
      end = this.#packedEnd
      // Packed floats are the bytes of the tensor.
      const isWhole = this.#listFields === 1 && end > start && end - start === count * width
      if (!isWhole || bytes[this.#listAt] !== packedFloats[dataType]) {
        this.#elements = this.#list(dataType, count)
        return null
      }
    }
    return new Tensor(this.#name, dataType, this.#shape, bytes.subarray(start, end))
  }

  #count(dataType: DataType): number {
    const { maxBytes } = this.#limits
    const shape = this.#shape
    let count = 1
    for (let i = 0; i < shape.length; i++) {
      const size = shape[i] as number
      if (size < 0) throw this.#wrong(`its shape [${shape.join(',')}] has a negative dimension`)
      count *= size
    }
    // A text has its length in front of it, four bytes.
    const least = count * (elementBytes[dataType] || 4)
    if (!(least <= maxBytes)) {
      throw this.#wrong(`its shape [${shape.join(',')}] needs ${least} bytes, at most ${maxBytes} are taken`)
    }
    return count
  }

  /** As TensorFlow packs texts into raw bytes: all lengths, then all texts. */
  #textsOf(content: Buffer, count: number): Uint8Array {
    const reader = new ProtobufReader(content, 0, content.length, noReaderLimits)
    if (count > content.length) throw this.#wrong(`tensor_content has ${content.length} bytes for ${count} texts`)
    const lengths = Array.from({ length: count }, () => reader.uint32())
    const total = lengths.reduce((sum, length) => sum + length, 0)
    if (total !== content.length - reader.at) {
      throw this.#wrong('the lengths of its texts are not those of tensor_content')
    }
    const bytes = Buffer.allocUnsafe(total + count * 4)
    let at = 0
    for (const length of lengths) {
      at = bytes.writeUInt32LE(length, at)
      at += content.copy(bytes, at, reader.at, reader.at + length)
      reader.at += length
    }
    return bytes
  }

  #list(dataType: DataType, count: number): Elements {
    const { maxBytes, reserve } = this.#limits
    const { bytes, end } = this.#reader
    const at = this.#listAt < 0 ? end : this.#listAt
    const reader = new ProtobufReader(bytes, at, end, noReaderLimits)
    const take = (size: number): Buffer => {
      if (size > maxBytes) throw this.#wrong(`its texts take ${size} bytes, at most ${maxBytes} are taken`)
      if (size > end - at) reserve(size)
      // Zeroed: a list without elements stands for zeros.
      return Buffer.alloc(size)
    }
    if (dataType === 'BYTES') return new TextList(reader, count, this.#texts, take)
    const wrongType = (): ServerError => this.#wrong('its elements have another wire type than their field')
    return new NumberList(reader, dataType, count, take(count * elementBytes[dataType]), wrongType)
  }
}

function readSize(reader: ProtobufReader): number {
  const outer = reader.end
  reader.end = reader.lengthEnd()
  let size = 0
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 8) size = reader.int64Number()
    else reader.skip(tag)
  }
  reader.end = outer
  return size
}

const firstListTag = 5 * 8
const textTag = listField.BYTES * 8 + 2
/** The tags of the lists whose packed form has the bytes of a tensor. */
const packedFloats: Partial<Record<DataType, number>> = { FP32: listField.FP32 * 8 + 2, FP64: listField.FP64 * 8 + 2 }

type NumberType = Exclude<DataType, 'BYTES'>
type ReadElement = (reader: ProtobufReader, view: DataView, at: number) => void

const readElement: Readonly<Record<NumberType, ReadElement>> = {
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
const scratch = new DataView(new ArrayBuffer(8))

class NumberList implements Elements {
  readonly bytes: Buffer
  readonly #view: DataView
  readonly #reader: ProtobufReader
  readonly #end: number
  readonly #dataType: NumberType
  readonly #read: ReadElement
  readonly #width: number
  readonly #count: number
  readonly #wrongType: () => ServerError
  #index = 0
  /** Where the packed list ends that the reader stands in. */
  #packedEnd = 0
  #filling: Filling | null = null

  constructor(
    reader: ProtobufReader,
    dataType: NumberType,
    count: number,
    bytes: Buffer,
    wrongType: () => ServerError,
  ) {
    this.bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#reader = reader
    this.#end = reader.end
    this.#dataType = dataType
    this.#read = readElement[dataType]
    this.#width = elementBytes[dataType]
    this.#count = count
    this.#wrongType = wrongType
  }

  step(): boolean {
    const reader = this.#reader
    for (let left = stepElements; reader.at < this.#end; left--) {
      if (left === 0) return false
      if (reader.at < this.#packedEnd) this.#take()
      else this.#nextField()
    }
    const filled = Math.min(this.#index, this.#count) * this.#width
    if (filled === 0 || filled >= this.bytes.length) return true
    this.#filling ??= new Filling(this.bytes, filled - this.#width, this.#width)
    return this.#filling.step()
  }

  #nextField(): void {
    const reader = this.#reader
    reader.end = this.#end
    const tag = reader.tag()
    if (tag >>> 3 !== listField[this.#dataType]) reader.skip(tag)
    else if ((tag & 7) === 2) reader.end = this.#packedEnd = reader.lengthEnd()
    else if ((tag & 7) === wireTypeOf(this.#dataType)) this.#take()
    else throw this.#wrongType()
  }

  #take(): void {
    // As in TensorFlow, elements beyond the shape are not looked at.
    if (this.#index < this.#count) this.#read(this.#reader, this.#view, this.#index * this.#width)
    else this.#read(this.#reader, scratch, 0)
    this.#index++
  }
}

/** What the fields of a message say of its texts: how many there are, their bytes with their lengths, those of the last one. */
type TextSizes = { readonly count: number; readonly bytes: number; readonly lastBytes: number }

class TextList implements Elements {
  readonly #target: Buffer
  readonly #reader: ProtobufReader
  readonly #count: number
  readonly #lastBytes: number
  #index = 0
  #at = 0
  #filling: Filling | null = null

  constructor(reader: ProtobufReader, count: number, sizes: TextSizes, take: (size: number) => Buffer) {
    this.#reader = reader
    this.#count = count
    this.#lastBytes = sizes.lastBytes
    this.#target = take(sizes.bytes + Math.max(0, count - sizes.count) * sizes.lastBytes)
  }

  get bytes(): Uint8Array {
    // Texts beyond the shape are not looked at.
    return this.#index < this.#count ? this.#target : this.#target.subarray(0, this.#at)
  }

  step(): boolean {
    const reader = this.#reader
    for (let left = stepElements; reader.at < reader.end; left--) {
      if (left === 0) return false
      const tag = reader.tag()
      if (tag === textTag && this.#index < this.#count) this.#take(reader)
      else reader.skip(tag)
    }
    if (this.#at === 0 || this.#index >= this.#count) return true
    this.#filling ??= new Filling(this.#target, this.#at - this.#lastBytes, this.#lastBytes)
    return this.#filling.step()
  }

  #take(reader: ProtobufReader): void {
    const end = reader.lengthEnd()
    const at = this.#target.writeUInt32LE(end - reader.at, this.#at)
    this.#at = at + reader.bytes.copy(this.#target, at, reader.at, end)
    this.#index++
    reader.at = end
  }
}

/** Repeats an element from its place to the end: doubles what is there. */
class Filling {
  readonly #bytes: Buffer
  readonly #start: number
  #length: number

  constructor(bytes: Buffer, start: number, width: number) {
    this.#bytes = bytes
    this.#start = start
    this.#length = width
  }

  step(): boolean {
    const bytes = this.#bytes
    const start = this.#start
    for (let left = stepBytes; start + this.#length < bytes.length;) {
      if (left <= 0) return false
      const more = Math.min(this.#length, bytes.length - start - this.#length, stepBytes)
      bytes.copyWithin(start + this.#length, start, start + more)
      this.#length += more
      left -= more
    }
    return true
  }
}
