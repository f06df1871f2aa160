// The two regions of one worker: the server writes inputs and the worker reads them; outputs go the other way.
// An input block is free again when no array in the worker uses it any more; an output block when the response that
// carries it is released.

import { ServerError } from '../../base/server-error.ts'
import { BlockAllocator } from './block-allocator.ts'
import { SharedMemory, sharedMemorySupport } from './shared-memory.ts'

export type SharedMemoryLimits = {
  /** The size of a region at start. An idle region shrinks to this size again. */
  readonly initialBytes: number
  /** The most bytes of one region; a request that needs more fails. */
  readonly maxBytes: number
  /** Tensors up to this size travel in the message itself. */
  readonly inlineBytes: number
  /** The flag that sets `maxBytes`, for the error of a request that needs more. */
  readonly maxBytesFlag: string
}

const pageBytes = 4096

export class TensorRegions {
  readonly limits: SharedMemoryLimits
  readonly inputs: SharedMemory
  readonly outputs: SharedMemory
  readonly #blocks = new BlockAllocator()

  private constructor(limits: SharedMemoryLimits, inputs: SharedMemory, outputs: SharedMemory) {
    this.limits = limits
    this.inputs = inputs
    this.outputs = outputs
    this.#blocks.grow(limits.initialBytes)
  }

  /** Null where shared memory is not supported. */
  static create(limits: SharedMemoryLimits): TensorRegions | null {
    const { libc } = sharedMemorySupport()
    if (libc === null) return null
    const inputs = SharedMemory.create(libc, limits.initialBytes)
    try {
      return new TensorRegions(limits, inputs, SharedMemory.create(libc, limits.initialBytes))
    } catch (reason) {
      inputs.close()
      throw reason
    }
  }

  get inputBytes(): number {
    return this.#blocks.usedBytes
  }

  /** True when the input region holds more memory than at start and nobody uses it. */
  get canTrimInputs(): boolean {
    return this.#blocks.isEmpty && this.#blocks.capacity > this.limits.initialBytes
  }

  trimInputs(): void {
    if (this.#blocks.isEmpty) {
      const { initialBytes } = this.limits
      this.inputs.punch(initialBytes, this.#blocks.capacity - initialBytes)
    }
  }

  /** Copies a tensor's bytes into a block of their own and returns its offset. */
  storeInput(bytes: Uint8Array): number {
    let offset = this.#blocks.take(bytes.length)
    if (offset < 0) {
      this.#growInputs(bytes.length)
      offset = this.#blocks.take(bytes.length)
    }
    this.inputs.cover(offset + bytes.length).set(bytes, offset)
    return offset
  }

  freeInput(offset: number): boolean {
    return this.#blocks.free(offset)
  }

  #growInputs(bytes: number): void {
    const needed = Math.ceil(this.#blocks.capacityFor(bytes) / pageBytes) * pageBytes
    if (needed > this.limits.maxBytes) {
      throw new ServerError(
        'UNAVAILABLE',
        `inputs of this model need more than ${this.limits.maxBytes} bytes of shared memory at once; ` +
          `the limit is ${this.limits.maxBytesFlag}`,
      )
    }
    const capacity = Math.max(needed, Math.min(this.#blocks.capacity * 2, this.limits.maxBytes))
    this.inputs.grow(capacity)
    this.#blocks.grow(capacity)
  }

  viewOutput(offset: number, bytes: number): Uint8Array {
    return this.outputs.cover(offset + bytes).subarray(offset, offset + bytes)
  }

  close(): void {
    this.inputs.close()
    this.outputs.close()
  }
}
