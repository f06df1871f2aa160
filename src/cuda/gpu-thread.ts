// One thread of a GPU, as the main thread sees it: programs go in, and their results come back in the same order.

import { Worker } from 'node:worker_threads'
import { koffiPath } from '../base/koffi.ts'
import type { GpuFaults } from './gpu-faults.ts'
import type { GpuProgram, GpuResult } from './gpu-program.ts'
import type { QuietGate } from './quiet-gate.ts'
import { gpuThreadSource, type GpuAnswer, type GpuJobMessage, type GpuThreadSetting } from './gpu-thread-program.ts'

type Done = (result: GpuResult) => void

/** What all threads of the GPUs have in common. */
type Shared = { readonly gate: QuietGate; readonly faults: GpuFaults }

const lostText = 'the thread of the GPU was lost'
const lost: GpuResult = {
  error: { code: -1, text: lostText },
  status: 0,
  values: [],
  marks: [],
}

export class GpuThread {
  readonly deviceId: number
  readonly #gate: QuietGate
  readonly #faults: GpuFaults
  readonly #worker: Worker
  readonly #waiting = new Map<number, { readonly kept: unknown; readonly done: Done }>()
  #nextId = 1
  #isGone = false

  constructor({ gate, faults }: Shared, setting: Omit<GpuThreadSetting, 'koffiPath'>) {
    this.#gate = gate
    this.#faults = faults
    this.deviceId = setting.deviceId
    const workerData: GpuThreadSetting = { ...setting, koffiPath: koffiPath() }
    this.#worker = new Worker(gpuThreadSource(), { eval: true, workerData, name: `gpu-${setting.deviceId}` })
    this.#worker.on('message', (answer: GpuAnswer) => this.#onAnswer(answer))
    this.#worker.on('error', () => undefined) // `exit` follows, and says the same.
    this.#worker.on('exit', () => this.#onExit())
    // An idle thread must not keep the process alive; a busy one does.
    this.#worker.unref()
  }

  /** Why nothing that is sent here will ever work again; null: it may. */
  get fault(): string | null {
    return this.#faults.of(this.deviceId) ?? (this.#isGone ? lostText : null)
  }

  get isGone(): boolean {
    return this.#isGone
  }

  /** Calls `done` exactly once, later. */
  run(program: GpuProgram, done: Done): void {
    this.#gate.enter(program.isAlone, () =>
      this.#send(program, (result) => {
        this.#gate.leave()
        done(result)
      }),
    )
  }

  #send(program: GpuProgram, done: Done): void {
    if (this.#isGone) {
      queueMicrotask(() => done(lost))
      return
    }
    const id = this.#nextId++
    this.#waiting.set(id, { kept: program.kept, done })
    this.#worker.ref()
    const message: GpuJobMessage = { id, numbers: program.numbers, handle: program.handle }
    this.#worker.postMessage(message, [])
  }

  /** As `run`; rejects when CUDA reports an error. For programs that run no model. */
  async ask(program: GpuProgram): Promise<readonly number[]> {
    const { error, values } = await new Promise<GpuResult>((resolve) => this.run(program, resolve))
    if (error !== null) throw new CudaError(error.code, error.text)
    return values
  }

  async close(): Promise<void> {
    if (this.#isGone) return
    const exited = new Promise<void>((resolve) => void this.#worker.once('exit', () => resolve()))
    this.#worker.ref()
    this.#worker.postMessage(null, [])
    await exited
  }

  #onAnswer(answer: GpuAnswer): void {
    const job = this.#waiting.get(answer.id)
    this.#waiting.delete(answer.id)
    if (this.#waiting.size === 0) this.#worker.unref()
    if (answer.error !== null) this.#faults.note(this.deviceId, answer.error)
    job?.done(answer)
  }

  #onExit(): void {
    this.#isGone = true
    const jobs = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { done } of jobs) done(lost)
  }
}

/** What the CUDA driver reported; `code` is its CUresult, -1 when the driver could not be called. */
export class CudaError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.name = 'CudaError'
    this.code = code
  }
}
