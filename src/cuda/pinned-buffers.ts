// Pinned memory of the host for inputs: a GPU copies out of it by itself, several times as fast as out of plain memory.

import { loadKoffi } from '../base/koffi.ts'
import { keepWithOwner } from '../base/transferable-bytes.ts'
import type { GpuMemoryBudget } from './gpu-memory-budget.ts'
import { GpuProgram } from './gpu-program.ts'
import type { GpuThread } from './gpu-thread.ts'

/** Up to this size pinned memory brings nothing. */
const leastBytes = 64 * 1024

type Block = { readonly address: number; readonly byteLength: number }

export class PinnedBuffers {
  readonly #budget: GpuMemoryBudget
  readonly #thread: () => GpuThread
  /** By size: clients send the same tensor again and again. */
  readonly #free = new Map<number, Buffer[]>()
  /** The memory of all buffers. */
  readonly #own = new WeakMap<ArrayBufferLike, Block>()
  /** Sizes that are being allocated. */
  readonly #coming = new Set<number>()
  /**
   * A buffer that nobody gave back, because its request failed, is free again when nobody can reach it any more. Its memory stays: to free it
   * and to allocate it anew takes longer than a request.
   */
  readonly #lost = new FinalizationRegistry<Block>((block) => this.#add(block))

  constructor(budget: GpuMemoryBudget, thread: () => GpuThread) {
    this.#budget = budget
    this.#thread = thread
  }

  get limitBytes(): number {
    return this.#budget.limitBytes
  }

  /** Of all that take from this budget. */
  get usedBytes(): number {
    return this.#budget.usedBytes
  }

  /** Null: there is none of that size yet, and the next request may find one. Not cleared. */
  take(byteLength: number): Buffer | null {
    if (byteLength < leastBytes) return null
    const buffer = this.#free.get(byteLength)?.pop()
    if (buffer !== undefined) return buffer
    if (!this.#coming.has(byteLength) && this.#hasRoom(byteLength)) void this.#allocate(byteLength)
    return null
  }

  /** Nobody looks at the buffer any more. */
  give(buffer: Buffer): void {
    const free = this.#free.get(buffer.length)
    if (free === undefined) this.#free.set(buffer.length, [buffer])
    else free.push(buffer)
  }

  /** As `give`, for the memory of a buffer; false: it is not of here. */
  giveBack(memory: ArrayBufferLike): boolean {
    if (!this.#own.has(memory)) return false
    this.give(Buffer.from(memory))
    return true
  }

  /** Other sizes than the one that is asked for leave when the budget is used up. */
  #hasRoom(byteLength: number): boolean {
    if (this.#budget.take(byteLength)) return true
    for (const [size, buffers] of this.#free) {
      if (size === byteLength) continue
      this.#free.delete(size)
      for (const { buffer: memory } of buffers) this.#release(memory)
    }
    return false
  }

  async #allocate(byteLength: number): Promise<void> {
    this.#coming.add(byteLength)
    try {
      const program = new GpuProgram()
      program.allocatePinned(byteLength)
      const [address = 0] = await this.#thread().ask(program)
      this.#add({ address, byteLength })
    } catch {
      this.#budget.giveBack(byteLength)
    } finally {
      this.#coming.delete(byteLength)
    }
  }

  #add(block: Block): void {
    const memory = loadKoffi().view(BigInt(block.address), block.byteLength)
    // Memory that a thread took over would be used again while the thread looks at it.
    keepWithOwner(memory)
    this.#own.set(memory, block)
    this.#lost.register(memory, block, memory)
    this.give(Buffer.from(memory))
  }

  /** Of a buffer that is free. */
  #release(memory: ArrayBufferLike): void {
    const block = this.#own.get(memory)
    if (block === undefined) return
    this.#own.delete(memory)
    this.#lost.unregister(memory)
    const { address, byteLength } = block
    this.#budget.giveBack(byteLength)
    const program = new GpuProgram()
    program.freePinned(address)
    this.#thread().run(program, () => undefined)
  }
}
