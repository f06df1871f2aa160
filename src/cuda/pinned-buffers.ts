// Pinned memory of the host for inputs: a GPU copies out of it by itself, several times as fast as out of plain memory.

import { markAsUntransferable } from 'node:worker_threads'
import { loadKoffi } from '../base/koffi.ts'
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
  readonly #own = new WeakSet<ArrayBufferLike>()
  /** Sizes that are being allocated. */
  readonly #coming = new Set<number>()
  /** A buffer that nobody gave back, because its request failed, is freed when nobody can reach it any more. */
  readonly #lost = new FinalizationRegistry<Block>((block) => this.#release(block))

  constructor(budget: GpuMemoryBudget, thread: () => GpuThread) {
    this.#budget = budget
    this.#thread = thread
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
    for (const size of this.#free.keys()) if (size !== byteLength) this.#free.delete(size)
    return false
  }

  async #allocate(byteLength: number): Promise<void> {
    this.#coming.add(byteLength)
    try {
      const program = new GpuProgram()
      program.allocatePinned(byteLength)
      const [address = 0] = await this.#thread().ask(program)
      const memory = loadKoffi().view(BigInt(address), byteLength)
      // Memory that a thread took over would be freed while the thread looks at it.
      markAsUntransferable(memory)
      this.#own.add(memory)
      this.#lost.register(memory, { address, byteLength })
      this.give(Buffer.from(memory))
    } catch {
      this.#budget.giveBack(byteLength)
    } finally {
      this.#coming.delete(byteLength)
    }
  }

  #release({ address, byteLength }: Block): void {
    this.#budget.giveBack(byteLength)
    const program = new GpuProgram()
    program.freePinned(address)
    this.#thread().run(program, () => undefined)
  }
}
