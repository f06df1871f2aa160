// Runs a session on a GPU, for one Instance: one run at a time, on a thread of its own. With several Instances the copies of
// one run go on while the run of another computes.

import { assert } from '../../../base/assert.ts'
import { ServerError } from '../../../base/server-error.ts'
import { cudaCodeIn, lostGpuText, outOfMemoryCode, type GpuFaults } from '../../../cuda/gpu-faults.ts'
import type { GpuResult } from '../../../cuda/gpu-program.ts'
import { CudaError, type GpuThread } from '../../../cuda/gpu-thread.ts'
import type { QuietGate } from '../../../cuda/quiet-gate.ts'
import type { OnnxRunner, RunRequest, RunResult } from '../onnx-session.ts'
import type { GpuLane } from './gpu-lane.ts'
import { GpuGraphs } from './gpu-graphs.ts'
import { GpuPlan, type PlanTraits } from './gpu-plan.ts'
import type { GpuValues } from './gpu-values.ts'
import { isShapeSurprise } from './native-runner.ts'
import type { Address, OrtError, OrtLibrary } from './ort-library.ts'
import type { PlanContext } from './plan-slots.ts'

type Finished = (result: RunResult) => void

type GpuRunnerParts = {
  readonly library: OrtLibrary
  readonly thread: GpuThread
  readonly faults: Pick<GpuFaults, 'note'>
  readonly gate: Pick<QuietGate, 'isOccupied'>
  readonly lane: GpuLane
  readonly values: GpuValues
  readonly session: Address
  readonly context: PlanContext
  readonly traits: PlanTraits
  readonly runEntries: readonly (readonly [key: string, value: string])[]
}

export class GpuRunner implements OnnxRunner {
  readonly deviceId: number
  readonly #parts: GpuRunnerParts
  /** OrtRunOptions; the runner owns them until `close`. */
  readonly #runOptions: Address
  /** Null: the model has no CUDA graphs. */
  readonly #graphs: GpuGraphs | null
  #isRunning = false
  #isTerminated = false
  #isClosed = false

  constructor(parts: GpuRunnerParts) {
    this.#parts = parts
    this.deviceId = parts.thread.deviceId
    const { library, runEntries } = parts
    this.#runOptions = library.made((out) => library.functions.createRunOptions(out))
    for (const [key, value] of runEntries) this.#setOption(key, value)
    this.#graphs = parts.traits.hasGraphs ? new GpuGraphs((key, value) => this.#setOption(key, value)) : null
  }

  get lost(): string | null {
    const { fault } = this.#parts.thread
    if (fault !== null && !this.#isClosed) return lostGpuText(this.deviceId, fault)
    return this.#graphs?.isSpoiled === true ? spoiledText(this.deviceId) : null
  }

  run(request: RunRequest, finished: Finished): void {
    assert(!this.#isClosed && !this.#isRunning, 'a runner runs one request at a time, until it is closed')
    this.#isRunning = true
    const { lane } = this.#parts
    let plan: GpuPlan
    try {
      const { lost } = this
      if (lost !== null) throw ServerError.withoutStack('UNAVAILABLE', lost)
      plan = new GpuPlan(this.#parts.context, request, this.#parts.traits)
    } catch (reason) {
      this.#fail(reason, finished)
      return
    }
    if (lane.has(plan.deviceBytes, plan.hostBytes)) {
      this.#start(plan, request, finished)
      return
    }
    lane.prepare(plan.deviceBytes, plan.hostBytes, plan.roomBytes).then(
      () => this.#start(plan, request, finished),
      (reason: unknown) => this.#fail(this.#unprepared(reason, plan.deviceBytes), finished),
    )
  }

  /** With --live-check=compute a server whose GPU is lost is started again. */
  pulse(): Promise<boolean> {
    return Promise.resolve(this.#parts.thread.fault === null)
  }

  terminate(): void {
    // A recording that ends halfway spoils the session.
    if (!this.#isRunning || this.#isTerminated || this.#graphs?.isRecording === true) return
    this.#isTerminated = true
    const { library } = this.#parts
    library.check(library.functions.runOptionsSetTerminate(this.#runOptions))
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    const { lane, thread, library } = this.#parts
    library.functions.releaseRunOptions(this.#runOptions)
    void lane.close().then(() => thread.close())
  }

  #start(plan: GpuPlan, request: RunRequest, finished: Finished): void {
    const { thread, values, lane, session, gate } = this.#parts
    try {
      // A recording would wait for the session that is being made, and clients with it.
      const mayRecord = request.isPatient === true || !gate.isOccupied
      const isRecorded = this.#graphs?.choose(plan.graphKey, lane, mayRecord) ?? false
      const program = plan.program(values, lane, session, this.#runOptions)
      program.isAlone = isRecorded
      thread.run(program, (result) => this.#onResult(plan, request, result, finished))
    } catch (reason) {
      this.#fail(reason, finished)
    }
  }

  #onResult(plan: GpuPlan, request: RunRequest, result: GpuResult, finished: Finished): void {
    const { library, lane, context } = this.#parts
    this.#graphs?.finished(result.status === 0 && result.error === null)
    if (lane.isOverBudget) lane.afterRun().catch(() => undefined)
    if (result.status === 0 && result.error === null) {
      try {
        const { outputs, release } = plan.collect()
        const [start = 0, copied = 0, computed = 0, end = 0] = result.marks
        const copiedNs = { before: (copied - start) * 1e6, after: (end - computed) * 1e6 }
        this.#end()
        finished({ error: null, outputs, elapsedNs: (computed - copied) * 1e6, copiedNs, release })
      } catch (reason) {
        this.#fail(reason, finished)
      }
      return
    }
    plan.abandon()
    const error = result.status === 0 ? null : library.takeError(result.status)
    if (error === null) {
      this.#fail(this.#failure(result.error?.text ?? ''), finished)
      return
    }
    if (plan.hasBoundOutputs && !this.#isTerminated && isShapeSurprise(error) && context.arePredictable) {
      // The model describes its outputs wrongly. No request has an answer yet, so run again with unbound outputs.
      context.arePredictable = false
      this.#end()
      this.run(request, finished)
      return
    }
    this.#fail(this.#described(error), finished)
  }

  #setOption(key: string, value: string): void {
    const { library } = this.#parts
    library.check(library.functions.addRunConfigEntry(this.#runOptions, key, value))
  }

  #end(): boolean {
    this.#isRunning = false
    if (!this.#isTerminated) return false
    this.#isTerminated = false
    const { library } = this.#parts
    library.check(library.functions.runOptionsUnsetTerminate(this.#runOptions))
    return true
  }

  #fail(reason: unknown, finished: Finished): void {
    const isTerminated = this.#end()
    finished({ error: ServerError.from(reason), isTerminated })
  }

  /** Why the lane has no room. */
  #unprepared(reason: unknown, byteLength: number): ServerError {
    if (reason instanceof CudaError && reason.code === outOfMemoryCode) {
      return outOfMemory(reason, byteLength, this.deviceId)
    }
    return this.#failure(reason instanceof Error ? reason.message : String(reason))
  }

  /** Of an error that CUDA itself reported. */
  #failure(text: string): ServerError {
    const { lost } = this
    if (lost !== null) return ServerError.withoutStack('UNAVAILABLE', lost)
    return ServerError.withoutStack('INTERNAL', `the GPU reported an error: ${text}`)
  }

  #described({ code, message }: OrtError): ServerError {
    const cudaCode = cudaCodeIn(message)
    if (cudaCode !== null) this.#parts.faults.note(this.deviceId, { code: cudaCode, text: message })
    const { lost } = this
    if (lost !== null) return ServerError.withoutStack('UNAVAILABLE', lost)
    const text = `onnx runtime error ${code}: ${message}`
    if (
      !/failed to allocate memory|out of memory|cudaErrorMemoryAllocation|available memory of \d+ is smaller/i.test(
        message,
      )
    ) {
      return ServerError.withoutStack('INTERNAL', text)
    }
    return ServerError.withoutStack(
      'UNAVAILABLE',
      `GPU ${this.deviceId} has no memory left for this batch: make max_batch_size smaller, set gpu_mem_limit of the models ` +
        `that share the GPU, or try again later. ${text}`,
    )
  }
}

const outOfMemory = ({ message }: CudaError, byteLength: number, deviceId: number): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `GPU ${deviceId} has no memory left for ${byteLength} bytes of inputs and outputs of this batch: make max_batch_size ` +
      `smaller, or try again later (${message})`,
  )

const spoiledText = (deviceId: number): string =>
  `a CUDA graph of this model could not be recorded on GPU ${deviceId}, and its session cannot be used any more: load the ` +
  'model again, or leave out optimization.cuda.graphs'
