// The GPUs of the machine for the parts of the server that use them: threads, budgets of memory and what is free.
// Nothing of CUDA is loaded before the first of them asks.

import { driverLibrary } from './cuda-libraries.ts'
import { GpuFaults } from './gpu-faults.ts'
import { GpuMemoryBudget } from './gpu-memory-budget.ts'
import { GpuProgram } from './gpu-program.ts'
import { GpuThread } from './gpu-thread.ts'
import { PinnedBuffers } from './pinned-buffers.ts'
import { QuietGate } from './quiet-gate.ts'

export type GpuSettings = {
  /** How many GPUs models and clients may use; they are numbered from 0. */
  readonly count: number
  /** `--cuda-memory-pool-byte-size`, by GPU. */
  readonly poolBytes?: ReadonlyMap<number, number>
  /** `--pinned-memory-pool-byte-size`. */
  readonly pinnedBytes?: number
  /** Of the CUDA driver; another one in tests. */
  readonly driverLibrary?: string
  /** Memory of the host stands in for that of GPUs, for tests on machines without one. */
  readonly ofTests?: boolean
}

/** Triton's default for each GPU. */
const defaultPoolBytes = 64 * 1024 * 1024
/** Triton's default. */
const defaultPinnedBytes = 1024 * 1024 * 1024

type ThreadTraits = {
  readonly run?: bigint | null
  readonly isBusyWaiting?: boolean
  readonly cores?: readonly number[]
}

export class Gpus {
  readonly count: number
  readonly ofTests: boolean
  /** All that calls CUDA goes through it. */
  readonly gate = new QuietGate()
  readonly faults = new GpuFaults()
  /** Memory of the host that GPUs copy from and to. */
  readonly pinned: GpuMemoryBudget
  /** For inputs on their way to a GPU. */
  readonly pinnedInputs: PinnedBuffers
  readonly #poolBytes: ReadonlyMap<number, number>
  readonly #driverLibrary: string
  readonly #pools = new Map<number, GpuMemoryBudget>()
  /** One for each GPU, for copies and questions of parts that run no models. */
  readonly #services = new Map<number, GpuThread>()

  constructor(settings: GpuSettings) {
    this.count = settings.count
    this.ofTests = settings.ofTests ?? false
    this.#poolBytes = settings.poolBytes ?? new Map()
    this.#driverLibrary = settings.driverLibrary ?? driverLibrary
    this.pinned = new GpuMemoryBudget(settings.pinnedBytes ?? defaultPinnedBytes)
    this.pinnedInputs = new PinnedBuffers(this.pinned, () => this.service(0))
  }

  /** Memory of the GPU that inputs and outputs keep between batches. */
  pool(deviceId: number): GpuMemoryBudget {
    let pool = this.#pools.get(deviceId)
    if (pool === undefined) {
      pool = new GpuMemoryBudget(this.#poolBytes.get(deviceId) ?? defaultPoolBytes)
      this.#pools.set(deviceId, pool)
    }
    return pool
  }

  /** A thread of its own for who asks; the asker closes it. */
  startThread(deviceId: number, { run = null, isBusyWaiting = false, cores = [] }: ThreadTraits = {}): GpuThread {
    return new GpuThread(this, { driverLibrary: this.#driverLibrary, deviceId, run, isBusyWaiting, cores })
  }

  service(deviceId: number): GpuThread {
    let thread = this.#services.get(deviceId)
    if (thread === undefined || thread.isGone) this.#services.set(deviceId, (thread = this.startThread(deviceId)))
    return thread
  }

  async memory(deviceId: number): Promise<{ readonly freeBytes: number; readonly totalBytes: number }> {
    const program = new GpuProgram()
    program.askMemory()
    const [freeBytes = 0, totalBytes = 0] = await this.service(deviceId).ask(program)
    return { freeBytes, totalBytes }
  }

  async close(): Promise<void> {
    const threads = [...this.#services.values()]
    this.#services.clear()
    await Promise.all(threads.map((thread) => thread.close()))
  }
}
