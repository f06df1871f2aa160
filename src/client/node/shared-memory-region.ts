/// <reference lib="esnext.disposable" preserve="true" />
// A region of /dev/shm that this process makes, fills and reads, for servers on the same machine.

import { constants } from 'node:fs'
import { open, unlink, type FileHandle } from 'node:fs/promises'
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { elementBytes, type DataType } from '../../tensor/data-type.ts'
import { elementCount, shapeText, type Shape } from '../../tensor/shape.ts'
import type { InputTensor, SharedMemoryRange } from '../infer-request.ts'
import type { InferenceClient } from '../inference-client.ts'
import { InferenceError } from '../inference-error.ts'
import { OutputTensor } from '../output-tensor.ts'
import { encodeTensorData, type TensorData } from '../tensor-data.ts'

const folder = '/dev/shm'
/** Where a tensor begins: a cache line, which suits every element type. */
const alignment = 64

export type SharedMemoryRegionOptions = {
  readonly byteSize: number
  /** Default: a name that nothing else has. Letters, digits, `.`, `_` and `-`. */
  readonly name?: string
  /** Permissions of the object; the server must be able to open it. Default 0o600: the same user. */
  readonly mode?: number
}

export type PlacedInput = Extract<InputTensor, { readonly sharedMemory: SharedMemoryRange }>

/** Makes the region. Throws ALREADY_EXISTS when an object of that name exists. */
export async function createSharedMemoryRegion(options: SharedMemoryRegionOptions): Promise<SharedMemoryRegion> {
  const { byteSize, name = `galatea-${randomUUID()}`, mode = 0o600 } = options
  if (!/^[\w.-]{1,200}$/.test(name) || /^\.+$/.test(name)) {
    throw InferenceError.ofArgument(`'${name}' is no name for a region: use letters, digits, '.', '_' and '-'`)
  }
  if (!Number.isSafeInteger(byteSize) || byteSize <= 0) {
    throw InferenceError.ofArgument(`region '${name}' needs a byteSize above 0, got ${byteSize}`)
  }
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_NOFOLLOW
  let file: FileHandle
  try {
    file = await open(path.join(folder, name), flags, mode)
  } catch (reason) {
    const isThere = reason instanceof Error && 'code' in reason && reason.code === 'EEXIST'
    throw new InferenceError(
      isThere ? 'ALREADY_EXISTS' : 'UNSUPPORTED',
      isThere ? `there is a region '${name}' in ${folder} already` : `cannot make a region in ${folder}`,
      { cause: reason },
    )
  }
  try {
    await file.truncate(byteSize)
  } catch (reason) {
    await file.close()
    await unlink(path.join(folder, name))
    throw reason
  }
  return new SharedMemoryRegion(file, name, byteSize)
}

export class SharedMemoryRegion {
  /** The name under which the region is registered. */
  readonly name: string
  /** The object's name, as the server wants it. */
  readonly key: string
  readonly byteSize: number
  readonly #file: FileHandle
  readonly #clients = new Set<InferenceClient>()
  #used = 0
  #isClosed = false

  constructor(file: FileHandle, name: string, byteSize: number) {
    this.#file = file
    this.name = name
    this.key = `/${name}`
    this.byteSize = byteSize
  }

  /** Registers the region with the server. `close` unregisters it. */
  async register(client: InferenceClient): Promise<void> {
    await client.registerSystemSharedMemory({ name: this.name, key: this.key, byteSize: this.byteSize })
    this.#clients.add(client)
  }

  /** Writes a tensor behind what is there already (or at `offset`); the result goes into the inputs of `infer`. */
  async write(
    data: TensorData,
    options: { readonly shape?: Shape; readonly dataType?: DataType; readonly offset?: number } = {},
  ): Promise<PlacedInput> {
    const { dataType, bytes, elementCount: count } = encodeTensorData(this.name, data, options.dataType)
    const shape = options.shape ?? [count]
    if (elementCount(shape) !== count) {
      throw InferenceError.ofArgument(`shape ${shapeText(shape)} needs ${elementCount(shape)} elements, got ${count}`)
    }
    const sharedMemory = this.reserve(bytes.length, options.offset)
    for (let done = 0; done < bytes.length;) {
      const { bytesWritten } = await this.#file.write(
        bytes,
        done,
        bytes.length - done,
        (sharedMemory.offset ?? 0) + done,
      )
      done += bytesWritten
    }
    return { dataType, shape, sharedMemory }
  }

  /** Room for an output: `outputs: [{ name, sharedMemory: region.reserve(64) }]`. */
  reserve(byteSize: number, offset = Math.ceil(this.#used / alignment) * alignment): SharedMemoryRange {
    if (!Number.isSafeInteger(offset) || offset < 0 || byteSize < 0 || offset + byteSize > this.byteSize) {
      throw InferenceError.ofArgument(
        `region '${this.name}' has ${this.byteSize} bytes: no room for ${byteSize} at ${offset}; reset() frees all of it`,
      )
    }
    this.#used = Math.max(this.#used, offset + byteSize)
    return { region: this.name, offset, byteSize }
  }

  /** Forgets what was written and reserved. */
  reset(): void {
    this.#used = 0
  }

  /** The tensor that the server wrote: `output` as it came in the answer, and the room it was given. */
  async read(output: OutputTensor, range: SharedMemoryRange): Promise<OutputTensor> {
    const { name, dataType, shape, parameters } = output
    const answered = parameters['shared_memory_byte_size']
    const size = typeof answered === 'number' ? Math.min(answered, range.byteSize) : tensorBytes(output, range)
    const bytes = new Uint8Array(size)
    for (let done = 0; done < size;) {
      const { bytesRead } = await this.#file.read(bytes, done, size - done, (range.offset ?? 0) + done)
      if (bytesRead === 0)
        throw new InferenceError('PROTOCOL', `region '${this.name}' became shorter than ${this.byteSize}`)
      done += bytesRead
    }
    return new OutputTensor(name, dataType, shape, bytes, parameters)
  }

  /** Unregisters it where `register` did, and removes the object. Twice is fine. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    const clients = [...this.#clients]
    this.#clients.clear()
    // A server that is gone has forgotten the region by itself.
    await Promise.allSettled(clients.map((client) => client.unregisterSystemSharedMemory(this.name)))
    await this.#file.close()
    await unlink(path.join(folder, this.name)).catch(() => null)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function tensorBytes({ dataType, shape }: OutputTensor, range: SharedMemoryRange): number {
  if (dataType === 'BYTES') return range.byteSize
  return Math.min(range.byteSize, elementCount(shape) * elementBytes[dataType])
}
