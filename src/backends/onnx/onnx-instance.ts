// Executes batches on a session: gathers inputs, picks the place, stamps the times, splits and answers.

import { assert } from '../../base/assert.ts'
import type { Cancel, Clock } from '../../base/clock.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Instance } from '../../model/backend.ts'
import type { Batch } from '../../model/batch.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { DataType } from '../../tensor/data-type.ts'
import { gatherBytes, splitRows } from '../../tensor/gather.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { PlaceByTime } from './execution-place.ts'
import type { OnnxRunner, RunInput, RunOutput, RunResult } from './onnx-session.ts'

export type OutputBinding = {
  readonly name: string
  readonly dataType: DataType
  /** Position among the session's outputs. */
  readonly sessionIndex: number
}

export type OnnxInstanceParts = {
  readonly clock: Clock
  readonly name: string
  readonly modelName: string
  readonly runner: OnnxRunner
  readonly place: PlaceByTime
  /** Input name → position in a run's inputs. */
  readonly inputIndex: ReadonlyMap<string, number>
  readonly inputCount: number
  /** In the configuration's order. */
  readonly outputs: readonly OutputBinding[]
  readonly maxExecutionMs: number
}

export class OnnxInstance implements Instance {
  readonly name: string
  readonly isReady = true
  readonly #parts: OnnxInstanceParts
  readonly #allIndexes: readonly number[]
  #batch: Batch | null = null
  /** Requests of the batch that still wait for an answer. */
  #live: readonly InferenceRequest[] = []
  #outputs: readonly OutputBinding[]
  #inputBytes = 0
  #cancelWatchdog: Cancel | null = null
  #isOverrun = false
  #onIdle: (() => void) | null = null
  readonly #finished = (result: RunResult): void => this.#onFinished(result)

  constructor(parts: OnnxInstanceParts) {
    this.name = parts.name
    this.#parts = parts
    this.#outputs = parts.outputs
    this.#allIndexes = parts.outputs.map((output) => output.sessionIndex)
  }

  execute(batch: Batch): void {
    assert(this.#batch === null, 'an instance executes one batch at a time')
    this.#batch = batch
    const { clock, place, runner } = this.#parts
    const live = liveRequests(batch.requests)
    this.#live = live
    const startNs = clock.nowNs()
    for (const request of live) request.computeStartNs = startNs
    if (live.length === 0) {
      this.#end()
      return
    }
    let inputs: (RunInput | null)[]
    try {
      inputs = live.length === 1 ? this.#inputsOf(live[0] as InferenceRequest) : this.#gather(live)
    } catch (reason) {
      this.#failAll(ServerError.from(reason))
      return
    }
    const outputs = this.#chooseOutputs(live)
    const where = place.placeFor(this.#inputBytes)
    const inputEndNs = clock.nowNs()
    for (const request of live) request.computeInputEndNs = inputEndNs
    if (where === 'offloaded') this.#watch(live)
    runner.run({ inputs, outputs, place: where }, this.#finished)
  }

  /** Ends a run in progress; its requests are told that the model is going away. */
  async close(): Promise<void> {
    if (this.#batch !== null) {
      const idle = new Promise<void>((resolve) => (this.#onIdle = resolve))
      this.#parts.runner.terminate()
      await idle
    }
    this.#parts.runner.close()
  }

  // HOT: once per request. The request's own bytes, no copies.
  #inputsOf(request: InferenceRequest): (RunInput | null)[] {
    const { inputCount, inputIndex } = this.#parts
    const inputs: (RunInput | null)[] = []
    for (let i = 0; i < inputCount; i++) inputs.push(null)
    let bytes = 0
    for (const tensor of request.inputs) {
      const index = inputIndex.get(tensor.name)
      if (index === undefined) throw unknownInput(tensor.name, this.#parts.modelName)
      inputs[index] = tensor
      bytes += tensor.bytes.byteLength
    }
    this.#inputBytes = bytes
    return inputs
  }

  /** Several requests: their rows one after the other. 1 copy. */
  #gather(requests: readonly InferenceRequest[]): (RunInput | null)[] {
    const perRequest = requests.map((request) => this.#inputsOf(request))
    const first = perRequest[0] as (RunInput | null)[]
    let bytes = 0
    const gathered = first.map((input, index) => {
      if (input === null) return null
      const parts: Uint8Array[] = []
      let rows = 0
      for (const inputs of perRequest) {
        const part = inputs[index]
        if (part === null || part === undefined) throw unevenInputs(this.#parts.modelName)
        parts.push(part.bytes)
        rows += part.shape[0] ?? 0
      }
      const joined = gatherBytes(parts)
      bytes += joined.byteLength
      return { shape: [rows, ...input.shape.slice(1)], bytes: joined }
    })
    this.#inputBytes = bytes
    return gathered
  }

  /** The outputs that any of the requests asked for, in the configuration's order. */
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
    for (const request of requests) request.onCancel = () => this.#onCancel()
    if (maxExecutionMs === 0) return
    this.#cancelWatchdog = clock.after(maxExecutionMs * 1e6, () => {
      this.#isOverrun = true
      runner.terminate()
    })
  }

  /** A run is ended when nobody waits for any of it; as long as one client does, it goes on. */
  #onCancel(): void {
    if (this.#live.every((request) => request.isCancelled)) this.#parts.runner.terminate()
  }

  #onFinished(result: RunResult): void {
    const { clock, place } = this.#parts
    const outputStartNs = clock.nowNs()
    this.#cancelWatchdog?.()
    this.#cancelWatchdog = null
    for (const request of this.#live) {
      request.onCancel = null
      request.computeOutputStartNs = outputStartNs
    }
    if (result.error !== null) {
      this.#failAll(this.#isOverrun ? this.#overrunError() : result.error)
      return
    }
    place.observe(this.#inputBytes, result.elapsedNs)
    if (this.#live.length === 1) this.#answerOne(this.#live[0] as InferenceRequest, result.outputs, result.release)
    else this.#answerEach(this.#live, result.outputs, result.release)
    this.#end()
  }

  // HOT: once per request.
  #answerOne(request: InferenceRequest, outputs: readonly RunOutput[], release: (() => void) | null): void {
    const tensors: Tensor[] = []
    for (let i = 0; i < outputs.length; i++) {
      const { shape, bytes } = outputs[i] as RunOutput
      const { name, dataType } = this.#outputs[i] as OutputBinding
      tensors.push(new Tensor(name, dataType, shape, bytes))
    }
    request.computeEndNs = this.#parts.clock.nowNs()
    if (request.isCancelled) {
      release?.()
      request.failCancelled()
    } else request.respond(InferenceResponse.of(tensors, { release }))
  }

  #answerEach(
    requests: readonly InferenceRequest[],
    outputs: readonly RunOutput[],
    release: (() => void) | null,
  ): void {
    const rowCounts = requests.map((request) => request.inputs[0]?.shape[0] ?? 0)
    const parts: (readonly Uint8Array[])[] = []
    for (const [i, { shape, bytes }] of outputs.entries()) {
      const { name, dataType } = this.#outputs[i] as OutputBinding
      const rows = splitRows(bytes, dataType, shape, rowCounts)
      if (rows === null) {
        release?.()
        this.#refuseSplit(requests, name, shape)
        return
      }
      parts.push(rows)
    }
    const endNs = this.#parts.clock.nowNs()
    // The memory is one block: the last response that lets go of its rows frees it.
    let holders = requests.length
    const releaseOne = release === null ? null : (): void => void (--holders === 0 && release())
    for (const [position, request] of requests.entries()) {
      const wanted = new Set(request.requestedOutputs)
      const tensors: Tensor[] = []
      for (const [i, { shape }] of outputs.entries()) {
        const { name, dataType } = this.#outputs[i] as OutputBinding
        if (wanted.size > 0 && !wanted.has(name)) continue
        const rowShape = [rowCounts[position] as number, ...shape.slice(1)]
        tensors.push(new Tensor(name, dataType, rowShape, parts[i]?.[position] as Uint8Array))
      }
      request.computeEndNs = endNs
      const response = InferenceResponse.of(tensors, { release: releaseOne })
      if (request.isCancelled) {
        response.release()
        request.failCancelled()
      } else request.respond(response)
    }
  }

  #refuseSplit(requests: readonly InferenceRequest[], name: string, shape: readonly number[]): void {
    const rows = this.#batch?.batchSize ?? 0
    const message = `output '${name}' of model '${this.#parts.modelName}' must have ${rows} rows, one per row of the batch, got shape [${shape.join(',')}]`
    const endNs = this.#parts.clock.nowNs()
    for (const request of requests) {
      request.computeEndNs = endNs
      if (!request.isEnded) request.fail(ServerError.withoutStack('INTERNAL', message))
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

const noRequests: readonly InferenceRequest[] = []

/** Those whose client still waits; the others end here and are not run. */
function liveRequests(requests: readonly InferenceRequest[]): readonly InferenceRequest[] {
  for (const request of requests) {
    if (!request.isCancelled) continue
    for (const cancelled of requests) if (cancelled.isCancelled && !cancelled.isEnded) cancelled.failCancelled()
    return requests.filter((each) => !each.isCancelled)
  }
  return requests
}

const unknownInput = (name: string, modelName: string): ServerError =>
  ServerError.withoutStack('INVALID_ARG', `unexpected inference input '${name}' for model '${modelName}'`)

const unevenInputs = (modelName: string): ServerError =>
  ServerError.withoutStack('INTERNAL', `requests of one batch for model '${modelName}' have different sets of inputs`)
