// Tensor records inside frames: sizes, writing, reading.

import { specimens } from '../../base/specimens.ts'
import { dataTypeCode, dataTypeOfCode } from '../../tensor/data-type.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { deviceReferenceOf, type DeviceReference } from '../../cuda/device-bytes.ts'
import {
  align8,
  align16,
  device,
  deviceHandleBytes,
  deviceReferenceBytes,
  inline,
  named,
  readUint64,
  shared,
  tensorHeadBytes,
  writeUint64,
} from './frames.ts'
import type { TensorRegions } from './tensor-regions.ts'

export const recordBytes = (tensor: Tensor, isNamed: boolean): number =>
  tensorHeadBytes + 8 * tensor.shape.length + (isNamed ? 8 + align8(Buffer.byteLength(tensor.name)) : 0)

/** Whether the bytes travel in the frame itself. */
export const isInline = (tensor: Tensor, regions: TensorRegions | null): boolean =>
  regions === null || tensor.bytes.length <= regions.limits.inlineBytes

/** What the frame holds of the tensor behind its records. `opensDevices`: the worker opens memory of a GPU by itself. */
export function frameBytes(tensor: Tensor, regions: TensorRegions | null, opensDevices: boolean): number {
  if (opensDevices && deviceReferenceOf(tensor.bytes) !== null) return deviceReferenceBytes
  return isInline(tensor, regions) ? align16(tensor.bytes.length) : 0
}

/** Writes records one after another, and inline bytes behind all of them. */
export class TensorRecordWriter {
  readonly #frame: Buffer
  readonly #regions: TensorRegions | null
  readonly #opensDevices: boolean
  /** Blocks taken for this frame, given back when it is not sent after all. */
  readonly stored: number[] = []
  #dataOffset: number

  /** `dataOffset`: where the inline bytes start. */
  constructor(frame: Buffer, dataOffset: number, regions: TensorRegions | null, opensDevices = false) {
    this.#frame = frame
    this.#regions = regions
    this.#opensDevices = opensDevices
    this.#dataOffset = dataOffset
  }

  /** Returns the offset behind the record. `index` is the name's place in the model's table, or `named`. */
  write(tensor: Tensor, offset: number, index: number): number {
    const frame = this.#frame
    const { shape, bytes } = tensor
    frame.writeUInt16LE(index, offset)
    frame[offset + 2] = dataTypeCode[tensor.dataType]
    frame[offset + 3] = shape.length
    if (this.#opensDevices && this.#refer(bytes, offset)) {
      // The worker reads the tensor where it lies.
    } else if (isInline(tensor, this.#regions)) {
      frame.writeUInt32LE(inline, offset + 4)
      this.#dataOffset = align16(this.#dataOffset)
      writeUint64(frame, this.#dataOffset, offset + 8)
      frame.set(bytes, this.#dataOffset)
      this.#dataOffset += bytes.length
    } else {
      frame.writeUInt32LE(shared, offset + 4)
      const block = (this.#regions as TensorRegions).storeInput(bytes)
      this.stored.push(block)
      writeUint64(frame, block, offset + 8)
    }
    writeUint64(frame, bytes.length, offset + 16)
    offset += tensorHeadBytes
    for (const size of shape) {
      writeUint64(frame, size, offset)
      offset += 8
    }
    if (index !== named) return offset
    const nameBytes = frame.write(tensor.name, offset + 8, 'utf8')
    writeUint64(frame, nameBytes, offset)
    return offset + 8 + align8(nameBytes)
  }

  /** False for a tensor in memory of the host. */
  #refer(bytes: Uint8Array, offset: number): boolean {
    const reference = deviceReferenceOf(bytes)
    if (reference === null) return false
    const frame = this.#frame
    this.#dataOffset = align16(this.#dataOffset)
    frame.writeUInt32LE(device, offset + 4)
    writeUint64(frame, this.#dataOffset, offset + 8)
    writeReference(frame, reference, this.#dataOffset)
    this.#dataOffset += deviceReferenceBytes
    return true
  }
}

export function writeReference(frame: Buffer, { handle, offset, deviceId }: DeviceReference, at: number): void {
  frame.set(handle, at)
  writeUint64(frame, offset, at + deviceHandleBytes)
  writeUint64(frame, deviceId, at + deviceHandleBytes + 8)
}

export class TensorRecordReader {
  readonly #regions: TensorRegions | null
  readonly #names: readonly string[]
  /** Offset behind the record read last. */
  end = 0
  /** Blocks of the output region that tensors read since the last reset lie in; null for none. */
  blocks: number[] | null = null

  constructor(regions: TensorRegions | null, names: readonly string[]) {
    this.#regions = regions
    this.#names = names
  }

  /** `places`: where the worker may have put outputs on a GPU by itself. */
  read(frame: Buffer, offset: number, places: ReadonlyMap<string, Uint8Array> | null = null): Tensor {
    const index = frame.readUInt16LE(offset)
    const code = frame[offset + 2] as number
    const rank = frame[offset + 3] as number
    const place = frame.readUInt32LE(offset + 4)
    const start = readUint64(frame, offset + 8)
    const size = readUint64(frame, offset + 16)
    offset += tensorHeadBytes
    const shape: number[] = []
    for (let i = 0; i < rank; i++, offset += 8) shape.push(readUint64(frame, offset))
    let name = this.#names[index]
    if (index === named) {
      const nameBytes = readUint64(frame, offset)
      name = frame.toString('utf8', offset + 8, offset + 8 + nameBytes)
      offset += 8 + align8(nameBytes)
    }
    this.end = offset
    const dataType = dataTypeOfCode(code)
    if (name === undefined || dataType === null) throw new Error('a tensor record names no known tensor')
    if (place === inline) {
      if (start + size > frame.length) throw new Error('a tensor lies outside of its frame')
      return new Tensor(name, dataType, shape, frame.subarray(start, start + size))
    }
    if (place === device) {
      const bytes = places?.get(name)
      if (bytes === undefined || size > bytes.length) throw new Error('a tensor lies on a GPU where nobody wants it')
      return new Tensor(name, dataType, shape, bytes.subarray(0, size))
    }
    if (this.#regions === null) throw new Error('a tensor lies in shared memory, which is not in use')
    const bytes = this.#regions.viewOutput(start, size)
    ;(this.blocks ??= []).push(start)
    return new Tensor(name, dataType, shape, bytes)
  }
}

specimens.add(() => new TensorRecordWriter(Buffer.alloc(0), 0, null))
