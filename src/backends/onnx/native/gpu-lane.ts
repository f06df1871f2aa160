// The memory of one Instance on a GPU, kept between batches: a piece of the GPU for inputs and outputs, and pieces of pinned
// memory of the host for outputs that are on their way to clients.

import type { GpuMemoryBudget } from '../../../cuda/gpu-memory-budget.ts'
import { GpuProgram } from '../../../cuda/gpu-program.ts'
import type { GpuThread } from '../../../cuda/gpu-thread.ts'
import { detach, viewOf, type Address } from './ort-library.ts'

/** Allocations of the GPU begin at such addresses, and kernels count on it. */
export const deviceAlignment = 256

/** The most pieces of pinned memory that an Instance has; answers that hold more are in plain memory. */
const mostPinned = 4

/** Smaller pieces bring nothing. */
const leastPinnedBytes = 64 * 1024

type Pinned = { readonly address: Address; readonly byteLength: number; isFree: boolean }

export type HostPlace = { readonly address: Address; readonly bytes: Uint8Array; readonly giveBack: () => void }

export class GpuLane {
  readonly #thread: GpuThread
  readonly #pool: GpuMemoryBudget
  readonly #pinnedPool: GpuMemoryBudget
  #device = { address: 0, byteLength: 0, isCounted: false }
  readonly #pinned: Pinned[] = []
  #isClosed = false
  #onEmpty: (() => void) | null = null

  constructor(thread: GpuThread, pools: { readonly device: GpuMemoryBudget; readonly pinned: GpuMemoryBudget }) {
    this.#thread = thread
    this.#pool = pools.device
    this.#pinnedPool = pools.pinned
  }

  get deviceAddress(): Address {
    return this.#device.address
  }

  /** True: so much memory is there, and `prepare` is not needed. */
  has(deviceBytes: number, hostBytes: number): boolean {
    return this.#device.byteLength >= deviceBytes && (hostBytes === 0 || this.#freePinned(hostBytes) !== undefined)
  }

  /**
   * Makes room on the GPU; rejects when the GPU has none. Also gets pinned memory, where the budget has some. Takes
   * `roomBytes` of the GPU at once where the budget has them, so that later and larger batches find the same address.
   */
  async prepare(deviceBytes: number, hostBytes: number, roomBytes = deviceBytes): Promise<void> {
    if (this.#device.byteLength < deviceBytes) await this.#grow(deviceBytes, roomBytes)
    if (hostBytes === 0 || this.#freePinned(hostBytes) !== undefined) return
    const tooSmall = this.#pinned.find(({ isFree }) => isFree)
    if (this.#pinned.length >= mostPinned && tooSmall !== undefined) this.#freeHost(tooSmall)
    const byteLength = 2 ** Math.ceil(Math.log2(Math.max(hostBytes, leastPinnedBytes)))
    if (this.#pinned.length >= mostPinned || !this.#pinnedPool.take(byteLength)) return
    try {
      const program = new GpuProgram()
      program.allocatePinned(byteLength)
      const [address = 0] = await this.#thread.ask(program)
      this.#pinned.push({ address, byteLength, isFree: true })
    } catch {
      // Plain memory does as well, more slowly.
      this.#pinnedPool.giveBack(byteLength)
    }
  }

  /** Null: no pinned memory is free. */
  takeHost(byteLength: number): HostPlace | null {
    const pinned = this.#freePinned(byteLength)
    if (pinned === undefined) return null
    pinned.isFree = false
    const bytes = viewOf(pinned.address, byteLength)
    return {
      address: pinned.address,
      bytes,
      giveBack: () => {
        // A late reader finds nothing instead of somebody else's answer.
        detach(bytes)
        pinned.isFree = true
        if (this.#isClosed) this.#freeHost(pinned)
      },
    }
  }

  /** Memory above the budget is for one batch only. */
  async afterRun(): Promise<void> {
    if (this.#device.isCounted || this.#device.address === 0) return
    await this.#freeDevice()
  }

  get isOverBudget(): boolean {
    return this.#device.address !== 0 && !this.#device.isCounted
  }

  /** Resolves when all memory is freed: what an answer still holds goes with the answer. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const pinned of this.#pinned.filter(({ isFree }) => isFree)) this.#freeHost(pinned)
    await this.#freeDevice().catch(() => undefined)
    if (this.#pinned.length > 0) await new Promise<void>((resolve) => (this.#onEmpty = resolve))
  }

  async #grow(deviceBytes: number, roomBytes: number): Promise<void> {
    await this.#freeDevice()
    const hasRoom = this.#pool.take(roomBytes)
    const byteLength = hasRoom ? roomBytes : deviceBytes
    const isCounted = hasRoom || this.#pool.take(byteLength)
    const program = new GpuProgram()
    program.allocate(byteLength)
    try {
      const [address = 0] = await this.#thread.ask(program)
      this.#device = { address, byteLength, isCounted }
    } catch (reason) {
      if (isCounted) this.#pool.giveBack(byteLength)
      throw reason
    }
  }

  async #freeDevice(): Promise<void> {
    const { address, byteLength, isCounted } = this.#device
    if (address === 0) return
    this.#device = { address: 0, byteLength: 0, isCounted: false }
    if (isCounted) this.#pool.giveBack(byteLength)
    const program = new GpuProgram()
    program.free(address)
    await this.#thread.ask(program)
  }

  #freeHost(pinned: Pinned): void {
    const at = this.#pinned.indexOf(pinned)
    if (at < 0) return
    this.#pinned.splice(at, 1)
    this.#pinnedPool.giveBack(pinned.byteLength)
    const program = new GpuProgram()
    program.freePinned(pinned.address)
    this.#thread.run(program, () => undefined)
    if (this.#pinned.length === 0) this.#onEmpty?.()
  }

  /** The smallest that fits. */
  #freePinned(byteLength: number): Pinned | undefined {
    let best: Pinned | undefined
    for (const each of this.#pinned) {
      if (each.isFree && each.byteLength >= byteLength && (best === undefined || each.byteLength < best.byteLength)) {
        best = each
      }
    }
    return best
  }
}
