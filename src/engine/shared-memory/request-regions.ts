import { ServerError } from '../../base/server-error.ts'
import { worded } from '../../model/worded-error.ts'
import { elementBytes } from '../../tensor/data-type.ts'
import { elementCount } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { HeldRegion, RegionReference, SharedMemoryRegistry } from './shared-memory-registry.ts'

type Piece = { readonly region: HeldRegion; readonly offset: number; readonly byteSize: number }

/** The request that inputs are read for. */
type RegionReader = {
  readonly modelName: string
  /** Without bytes where these lie in shared memory. */
  readonly inputs: readonly Tensor[]
  /** Counts so many bytes for the request. Throws ServerError when there is no room for them. */
  readonly reserve: (bytes: number) => void
}

/** Inputs up to this size are read whatever their shape: the check of the request that follows has Triton's order and texts. */
const uncheckedBytes = 1024 * 1024

/** What a front end knows of an output that may go to shared memory. */
export type OutputPlace = { readonly name: string; readonly sharedMemory: RegionReference | null }

/**
 * The pieces of shared memory that one request reads its inputs from and has its outputs written to. They are found and
 * checked when the request comes; its regions cannot go away before `release`.
 */
export class RequestRegions {
  readonly #registry: SharedMemoryRegistry
  readonly #inputs = new Map<number, Piece>()
  readonly #outputs = new Map<string, Piece>()
  /** The buffers that the inputs were read into. */
  #buffers: Buffer[] = []
  #pinned: Buffer[] = []
  /** True once outputs are in place: the model is done with its inputs. After a failure it may still look at them. */
  #isAnswered = false

  private constructor(registry: SharedMemoryRegistry) {
    this.#registry = registry
  }

  /** Null when the request uses none. Throws with Triton's texts, and then holds nothing. */
  static of(
    registry: SharedMemoryRegistry,
    inputs: ReadonlyMap<number, RegionReference>,
    outputs: readonly OutputPlace[],
    reader: RegionReader | null = null,
  ): RequestRegions | null {
    if (inputs.size === 0 && !outputs.some(({ sharedMemory }) => sharedMemory !== null)) return null
    const regions = new RequestRegions(registry)
    try {
      for (const [index, reference] of inputs) regions.#inputs.set(index, holdPiece(registry, reference))
      for (const { name, sharedMemory } of outputs) {
        // Of two places for one output the first counts. The region of the other would stay held for good.
        if (sharedMemory !== null && !regions.#outputs.has(name)) {
          regions.#outputs.set(name, holdPiece(registry, sharedMemory))
        }
      }
      if (reader !== null) regions.#requireRoom(reader)
    } catch (reason) {
      regions.release()
      throw reason
    }
    return regions
  }

  /** Nothing is read, and no memory is taken for it, before the sizes that the client names have been looked at. */
  #requireRoom({ modelName, inputs, reserve }: RegionReader): void {
    let allBytes = 0
    for (const [index, { byteSize }] of this.#inputs) {
      const { name, dataType, shape } = inputs[index] as Tensor
      const expected = dataType === 'BYTES' ? Infinity : elementCount(shape) * elementBytes[dataType]
      if (byteSize > Math.max(expected, uncheckedBytes)) throw mismatch(name, modelName, expected, byteSize)
      allBytes += byteSize
    }
    if (allBytes > 0) reserve(allBytes)
  }

  /**
   * Puts the bytes of the inputs in place, one copy each, and lets go of their regions. Calls `done` before it returns
   * when they are small, later otherwise; exactly once. Inputs that lie on the GPU `deviceId` stay there, except for texts, which no GPU reads.
   */
  readInputs(tensors: Tensor[], done: (error: ServerError | null) => void, deviceId: number | null = null): void {
    let pending = this.#inputs.size
    let failure: ServerError | null = null
    const onRead = (index: number, piece: Piece, error: ServerError | null): void => {
      failure ??= error
      this.#inputs.delete(index)
      piece.region.holders.release()
      if (--pending === 0) done(failure)
    }
    if (pending === 0) done(null)
    for (const [index, piece] of this.#inputs) {
      const { name, dataType, shape } = tensors[index] as Tensor
      const onDevice = deviceId === null || dataType === 'BYTES' ? null : bytesOnDevice(piece, deviceId)
      if (onDevice !== null) {
        // The region is held to the end of the request, because the model reads from it.
        tensors[index] = new Tensor(name, dataType, shape, onDevice)
        if (--pending === 0) done(failure)
        continue
      }
      const pinned = deviceId === null ? null : (this.#registry.pinnedInputs?.take(piece.byteSize) ?? null)
      if (pinned !== null) this.#pinned.push(pinned)
      const bytes = pinned ?? this.#takeBuffer(piece.byteSize)
      if (bytes === null) {
        onRead(index, piece, noMemory(piece))
        continue
      }
      tensors[index] = new Tensor(name, dataType, shape, bytes)
      piece.region.read(piece.offset, bytes, (error) => onRead(index, piece, error))
    }
  }

  /** After `readInputs`: some of them stay in memory of a GPU. */
  get hasDeviceInputs(): boolean {
    return this.#inputs.size > 0
  }

  /** Outputs whose places lie on the GPU `deviceId`; null when there are none. */
  placesOn(deviceId: number): ReadonlyMap<string, Uint8Array> | null {
    const places = new Map<string, Uint8Array>()
    for (const [name, piece] of this.#outputs) {
      const bytes = bytesOnDevice(piece, deviceId)
      if (bytes !== null) places.set(name, bytes)
    }
    return places.size === 0 ? null : places
  }

  #takeBuffer(byteSize: number): Buffer | null {
    try {
      const buffer = this.#registry.buffers.take(byteSize)
      this.#buffers.push(buffer)
      return buffer
    } catch {
      return null
    }
  }

  /** Writes the outputs that belong into regions; `done` as for `readInputs`. Their bytes must stay until then. */
  writeOutputs(outputs: readonly Tensor[], done: (error: ServerError | null) => void): void {
    const writes: { piece: Piece; bytes: Uint8Array }[] = []
    for (const { name, bytes } of outputs) {
      const piece = this.#outputs.get(name)
      if (piece === undefined) {
        // The front end writes this output later. The output may be a view on an input, whose buffer is then not reused.
        this.#buffers = this.#buffers.filter((buffer) => buffer.buffer !== bytes.buffer)
        this.#pinned = this.#pinned.filter((buffer) => buffer.buffer !== bytes.buffer)
        continue
      }
      if (bytes.length > piece.byteSize) {
        done(tooSmall(name, piece.byteSize, bytes.length))
        return
      }
      writes.push({ piece, bytes })
    }
    let pending = writes.length
    let failure: ServerError | null = null
    this.#isAnswered = true
    if (pending === 0) done(null)
    for (const { piece, bytes } of writes) {
      piece.region.write(piece.offset, bytes, (error) => {
        failure ??= error
        if (--pending === 0) done(failure)
      })
    }
  }

  /** Lets go of all regions; an operation under way must have ended. Twice is fine. */
  release(): void {
    for (const { region } of this.#inputs.values()) region.holders.release()
    this.#inputs.clear()
    for (const { region } of this.#outputs.values()) region.holders.release()
    this.#outputs.clear()
    if (this.#isAnswered) {
      for (const buffer of this.#buffers) this.#registry.buffers.give(buffer)
      for (const buffer of this.#pinned) this.#registry.pinnedInputs?.give(buffer)
    }
    this.#buffers = []
    this.#pinned = []
  }
}

/** Null: the piece is not in the memory of that GPU. */
function bytesOnDevice({ region, offset, byteSize }: Piece, deviceId: number): Uint8Array | null {
  if (region.bytes === undefined || region.deviceId !== deviceId) return null
  return region.bytes.subarray(offset, offset + byteSize)
}

const mismatch = (name: string, modelName: string, expected: number, got: number): ServerError =>
  ServerError.withoutStack(
    'INVALID_ARG',
    `input byte size mismatch for input '${name}' for model '${modelName}'. Expected ${expected}, got ${got}`,
  )

const noMemory = ({ region, byteSize }: Piece): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `the server has no memory for ${byteSize} bytes of shared memory region '${region.name}', try again later`,
  )

function holdPiece(registry: SharedMemoryRegistry, reference: RegionReference): Piece {
  const region = registry.hold(reference)
  return { region, offset: Number(reference.offset), byteSize: Number(reference.byteSize) }
}

const tooSmall = (name: string, byteSize: number, neededBytes: number): ServerError =>
  worded('sharedMemory', {
    text: `shared memory size specified with the request for output '${name}' (${byteSize} bytes) should be at least ${neededBytes} bytes to hold the results`,
  })
