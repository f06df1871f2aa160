// Executes batches on a session: gathers inputs, picks the place, stamps the times, splits and answers.

import { assert } from '../../base/assert.ts'
import type { Cancel, Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Instance } from '../../model/backend.ts'
import type { PreparedBatch } from '../../model/batch.ts'
import type { Batch } from '../../model/batch.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import { leftGpu } from '../../model/left-gpu.ts'
import type { Shape } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { PlaceByTime } from './execution-place.ts'
import { gatherInputs, type GatheredInputs, type InputPlaces } from './gather-inputs.ts'
import { placedTensors, placesOf } from './output-places.ts'
import type { OnnxRunner, RunOutput, RunResult } from './onnx-session.ts'
import type { Place } from './session-settings.ts'
import { splitOutput, type OutputBinding } from './split-outputs.ts'

type OnnxInstanceParts = InputPlaces & {
  readonly clock: Clock
  readonly name: string
  readonly runner: OnnxRunner
  readonly place: PlaceByTime
  /** In the configuration's order. */
  readonly outputs: readonly OutputBinding[]
  readonly maxExecutionMs: number
  /** The first dimension of inputs and outputs counts rows. */
  readonly isBatched?: boolean
  readonly onClose?: () => Promise<void>
}

export class OnnxInstance implements Instance {
  readonly name: string
  readonly isReady = true
  readonly deviceId: number | undefined
  readonly isDoneOnAnswer = true
  readonly #parts: OnnxInstanceParts
  readonly #allIndexes: readonly number[]
  #batch: Batch | null = null
  /** Requests of the batch that still wait for an answer. */
  #live: readonly InferenceRequest[] = []
  #outputs: readonly OutputBinding[]
  #sizeKey = 0
  #inputEndNs = 0
  #place: Place = 'inline'
  /** Answers are on their way while the next batch already runs. */
  #isAnswering = false
  #cancelWatchdog: Cancel | null = null
  #isOverrun = false
  #onIdle: (() => void) | null = null
  #closing: Promise<void> | null = null
  readonly #finished = (result: RunResult): void => this.#onFinished(result)

  constructor(parts: OnnxInstanceParts) {
    this.name = parts.name
    this.deviceId = parts.runner.deviceId
    this.#parts = parts
    this.#outputs = parts.outputs
    this.#allIndexes = parts.outputs.map((output) => output.sessionIndex)
  }

  get isLost(): boolean {
    return (this.#parts.runner.lost ?? null) !== null
  }

  get lastError(): string {
    return this.#parts.runner.lost ?? ''
  }

  async pulse(): Promise<boolean> {
    return (await this.#parts.runner.pulse?.()) ?? true
  }

  execute(batch: Batch): void {
    assert(this.#batch === null, 'an instance executes one batch at a time')
    this.#batch = batch
    const { clock, place, runner } = this.#parts
    const startNs = batch.startNs(clock)
    const live = liveRequests(batch.requests, this.deviceId, startNs)
    this.#live = live
    for (const request of live) request.computeStartNs = startNs
    if (live.length === 0) {
      this.#end()
      return
    }
    let gathered: GatheredInputs
    try {
      // Prepared inputs are usable only when all requests of the batch still wait.
      gathered =
        batch.prepared instanceof PreparedInputs && live === batch.requests
          ? batch.prepared.gathered
          : gatherInputs(this.#parts, live)
    } catch (reason) {
      this.#failAll(ServerError.from(reason))
      return
    }
    this.#sizeKey = gathered.sizeKey
    const outputs = this.#chooseOutputs(live)
    // While answers of the previous batch are still to be sent, a run on this thread would delay them.
    const where = this.#isAnswering ? 'offloaded' : place.placeFor(this.#sizeKey, startNs)
    this.#place = where
    const inputEndNs = clock.nowNs()
    this.#inputEndNs = inputEndNs
    for (const request of live) request.computeInputEndNs = inputEndNs
    if (where === 'offloaded') this.#watch(live)
    const outputPlaces = runner.deviceId === undefined ? null : placesOf(this.#parts, this.#outputs, live)
    const isPatient = live[0]?.isWarmUp === true
    runner.run({ inputs: gathered.inputs, outputs, place: where, isPatient, outputPlaces }, this.#finished)
  }

  /** A single request runs from its own bytes, so only several are prepared. `execute` finds bad requests later. */
  prepare(requests: readonly InferenceRequest[]): PreparedInputs | null {
    if (requests.length < 2) return null
    try {
      return new PreparedInputs(gatherInputs(this.#parts, requests))
    } catch {
      return null
    }
  }

  /** Ends a run in progress; its requests get an error that the model is being unloaded. Twice is fine. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    if (this.#batch !== null) {
      const idle = new Promise<void>((resolve) => (this.#onIdle = resolve))
      this.#parts.runner.terminate()
      await idle
    }
    this.#parts.runner.close()
    await this.#parts.onClose?.()
  }

  /** The outputs that at least one of the requests asked for, in the configuration's order. */
  #chooseOutputs(requests: readonly InferenceRequest[]): readonly number[] {
    const { outputs } = this.#parts
    this.#outputs = outputs
    const isAll = requests.some((request) => request.requestedOutputs.length === 0)
    if (isAll) return this.#allIndexes
    const wanted = new Set(requests.flatMap((request) => request.requestedOutputs))
    if (outputs.every((output) => wanted.has(output.name))) return this.#allIndexes
    this.#outputs = outputs.filter((output) => wanted.has(output.name))
    return this.#outputs.map((output) => output.sessionIndex)
  }

  #watch(requests: readonly InferenceRequest[]): void {
    const { clock, maxExecutionMs, runner } = this.#parts
    for (const request of requests) request.handOver(this)
    if (maxExecutionMs === 0) return
    this.#cancelWatchdog = clock.after(maxExecutionMs * 1e6, () => {
      this.#isOverrun = true
      runner.terminate()
    })
  }

  /** Ends the run when all its requests are cancelled. It goes on as long as one client waits. */
  onCancel(): void {
    if (this.#live.every((request) => request.isCancelled)) this.#parts.runner.terminate()
  }

  #onFinished(result: RunResult): void {
    const { clock, place } = this.#parts
    const outputStartNs = clock.nowNs()
    this.#cancelWatchdog?.()
    this.#cancelWatchdog = null
    for (const request of this.#live) {
      request.handOver(null)
      request.computeOutputStartNs = outputStartNs
    }
    if (result.error !== null) {
      // What took too long once would take as long again.
      if (this.#isOverrun) for (const request of this.#live) request.lend(null)
      this.#failAll(this.#isOverrun ? this.#overrunError() : result.error)
      return
    }
    place.observe(this.#sizeKey, result.elapsedNs ?? outputStartNs - this.#inputEndNs)
    if (result.copiedNs !== undefined) this.#stampCopies(outputStartNs, result.copiedNs)
    const live = this.#live
    const outputs = this.#outputs
    if (live.length === 1 && this.#parts.layout === null) {
      this.#answerOne(live[0] as InferenceRequest, outputs, result.outputs, result.release)
      this.#end()
    } else if (this.#place === 'inline') {
      this.#answerEach(live, outputs, result.outputs, result.release)
      this.#end()
    } else this.#handOver(live, outputs, result.outputs, result.release)
  }

  /** The copies to a GPU belong to the input of a request, those from it to the output. */
  #stampCopies(endNs: number, { before, after }: { readonly before: number; readonly after: number }): void {
    for (const request of this.#live) {
      request.computeInputEndNs = Math.min(this.#inputEndNs + before, endNs)
      request.computeOutputStartNs = Math.max(request.computeInputEndNs, endNs - after)
    }
  }

  /** Begins the next batch on its own thread before this one is answered, so that the model does not wait for sockets. */
  #handOver(
    live: readonly InferenceRequest[],
    bindings: readonly OutputBinding[],
    outputs: readonly RunOutput[],
    release: (() => void) | null,
  ): void {
    const endNs = this.#parts.clock.nowNs()
    for (const request of live) request.computeEndNs = endNs
    this.#isAnswering = true
    this.#end()
    this.#isAnswering = false
    this.#answerEach(live, bindings, outputs, release)
  }

  // HOT: once per request.
  #answerOne(
    request: InferenceRequest,
    bindings: readonly OutputBinding[],
    outputs: readonly RunOutput[],
    release: (() => void) | null,
  ): void {
    const tensors: Tensor[] = []
    for (let i = 0; i < outputs.length; i++) {
      const { shape, bytes, isPlaced = false } = outputs[i] as RunOutput
      const { name, dataType } = bindings[i] as OutputBinding
      if (isPlaced) {
        tensors.push(...placedTensors(name, dataType, shape, [request], false))
        continue
      }
      // A configuration cannot describe a scalar: clients see one element.
      tensors.push(new Tensor(name, dataType, shape.length === 0 ? oneElement : shape, bytes))
    }
    request.computeEndNs = this.#parts.clock.nowNs()
    if (request.isCancelled) {
      release?.()
      request.failCancelled()
    } else request.respond(InferenceResponse.of(tensors, { release }))
  }

  #answerEach(
    requests: readonly InferenceRequest[],
    bindings: readonly OutputBinding[],
    outputs: readonly RunOutput[],
    release: (() => void) | null,
  ): void {
    const perOutput: (readonly Tensor[])[] = []
    for (const [i, output] of outputs.entries()) {
      const binding = bindings[i] as OutputBinding
      const tensors =
        output.isPlaced === true
          ? placedTensors(binding.name, binding.dataType, output.shape, requests, true)
          : splitOutput(binding, output, requests, this.#parts.layout)
      if (typeof tensors === 'string') {
        release?.()
        this.#refuseSplit(requests, binding.name, tensors)
        return
      }
      perOutput.push(tensors)
    }
    const endNs = this.#parts.clock.nowNs()
    // The memory is one block: the last response that is released frees it.
    let holders = requests.length
    const releaseOne = release === null ? null : (): void => void (--holders === 0 && release())
    for (const [position, request] of requests.entries()) {
      const wanted = new Set(request.requestedOutputs)
      const tensors: Tensor[] = []
      for (const each of perOutput) {
        const tensor = each[position] as Tensor
        if (wanted.size === 0 || wanted.has(tensor.name)) tensors.push(tensor)
      }
      if (request.computeEndNs === 0) request.computeEndNs = endNs
      const response = InferenceResponse.of(tensors, { release: releaseOne })
      if (request.isCancelled) {
        response.release()
        request.failCancelled()
      } else request.respond(response)
    }
  }

  #refuseSplit(requests: readonly InferenceRequest[], name: string, why: string): void {
    const message = `output '${name}' of model '${this.#parts.modelName}' ${why}`
    const endNs = this.#parts.clock.nowNs()
    for (const request of requests) {
      if (request.computeEndNs === 0) request.computeEndNs = endNs
      if (request.isCancelled) request.failCancelled()
      else if (!request.isEnded) request.fail(ServerError.withoutStack('INTERNAL', message))
    }
  }

  #overrunError(): ServerError {
    const { modelName, maxExecutionMs } = this.#parts
    return ServerError.withoutStack(
      'INTERNAL',
      `execution of model '${modelName}' took longer than max_execution_ms (${maxExecutionMs}) and was ended`,
    )
  }

  #failAll(error: ServerError): void {
    const endNs = this.#parts.clock.nowNs()
    for (const request of this.#live) {
      if (request.computeInputEndNs === 0) request.computeInputEndNs = endNs
      if (request.computeOutputStartNs === 0) request.computeOutputStartNs = endNs
      request.computeEndNs = endNs
      if (request.isCancelled) request.failCancelled()
      else request.fail(error)
    }
    this.#end()
  }

  #end(): void {
    const batch = this.#batch
    assert(batch !== null, 'a batch ends once')
    this.#batch = null
    this.#live = noRequests
    this.#isOverrun = false
    this.#onIdle?.()
    this.#onIdle = null
    batch.executed()
  }
}

const oneElement: Shape = [1]
const noRequests: readonly InferenceRequest[] = []

/** The requests whose client still waits and whose inputs are within reach; the others end here and are not run. */
function liveRequests(
  requests: readonly InferenceRequest[],
  deviceId: number | undefined,
  nowNs: number,
): readonly InferenceRequest[] {
  for (const request of requests) {
    if (!request.isCancelled && isNear(request, deviceId)) continue
    for (const each of requests) {
      if (each.isEnded) continue
      if (each.isCancelled) each.failCancelled()
      else if (!isNear(each, deviceId)) failAway(each, nowNs)
    }
    return requests.filter((each) => !each.isCancelled && isNear(each, deviceId))
  }
  return requests
}

const isNear = ({ inputDevice }: InferenceRequest, deviceId: number | undefined): boolean =>
  inputDevice === null || inputDevice === deviceId

function failAway(request: InferenceRequest, nowNs: number): void {
  request.computeStartNs = nowNs
  request.computeInputEndNs = nowNs
  request.computeOutputStartNs = nowNs
  request.computeEndNs = nowNs
  request.fail(leftGpu(request))
}

/** One Instance prepares these inputs, and any Instance of the model may run them. */
class PreparedInputs implements PreparedBatch {
  readonly gathered: GatheredInputs

  constructor(gathered: GatheredInputs) {
    this.gathered = gathered
  }

  drop(): void {
    // There is nothing to give back: the memory is garbage-collected.
  }
}
