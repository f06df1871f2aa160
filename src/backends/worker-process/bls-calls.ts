// Requests that a model makes to other models, and their answers back to it.

import { InferenceRequest } from '../../model/inference-request.ts'
import { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelServices } from '../../model/model-services.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { NumberTable } from '../../base/number-table.ts'
import { ServerError } from '../../base/server-error.ts'
import { parseParameters } from './execute-frame.ts'
import { blsFlags, blsHeadBytes, headerBytes, readUint64, requestFlags } from './frames.ts'
import { encodeBlsResponse } from './response-record.ts'
import { TensorRecordReader } from './tensor-records.ts'
import type { TensorRegions } from './tensor-regions.ts'

type BlsHead = {
  readonly model: string
  readonly version: number
  readonly id: string
  readonly correlationId: string | null
  readonly correlationNumber: string
  readonly flags: number
  readonly timeoutUs: string
  readonly priority: string
  readonly outputs: readonly string[]
  readonly parameters: string | null
  /** The handle of the request whose trace the call belongs to; 0 for none. */
  readonly traceOf: number
}

export class BlsCalls {
  readonly #services: ModelServices
  readonly #regions: TensorRegions | null
  readonly #reader: TensorRecordReader
  readonly #send: (frame: Buffer) => void
  readonly #free: (blocks: readonly number[]) => void
  readonly #findRequest: (handle: number) => InferenceRequest | undefined
  readonly #running = new NumberTable<InferenceRequest>()
  #isClosed = false

  constructor(
    services: ModelServices,
    regions: TensorRegions | null,
    send: (frame: Buffer) => void,
    free: (blocks: readonly number[]) => void,
    findRequest: (handle: number) => InferenceRequest | undefined,
  ) {
    this.#services = services
    this.#regions = regions
    this.#reader = new TensorRecordReader(regions, [])
    this.#send = send
    this.#free = free
    this.#findRequest = findRequest
  }

  start(frame: Buffer): void {
    const callId = readUint64(frame, 8)
    const jsonBytes = frame.readUInt32LE(headerBytes)
    const isDecoupledCall = (frame.readUInt32LE(headerBytes + 4) & blsFlags.decoupled) !== 0
    const inputs: Tensor[] = []
    this.#reader.blocks = null
    this.#reader.end = headerBytes + blsHeadBytes
    const inputCount = frame.readUInt16LE(6)
    for (let i = 0; i < inputCount; i++) inputs.push(this.#reader.read(frame, this.#reader.end))
    const blocks = (this.#reader.blocks as number[] | null) ?? []
    const { end } = this.#reader
    const head = JSON.parse(frame.toString('utf8', end, end + jsonBytes)) as BlsHead
    let isEnqueuing = true
    const request = requestOf(head, inputs, (response, inner) => {
      // The text says whether the server refused the request or the called model failed, as in Triton.
      const isRefusal = isEnqueuing && inner.computeStartNs === 0
      this.#answer(callId, head, response, isRefusal)
      if (!response.isFinal) return
      this.#running.delete(callId)
      if (blocks.length > 0) this.#free(blocks)
    })
    this.#running.set(callId, request)
    const caller = this.#findRequest(head.traceOf)
    if (head.traceOf !== 0) caller?.trace?.beginChild(request)
    request.origin = caller?.origin ?? null
    request.isInner = true
    request.isShadow = caller?.isShadow ?? false
    const refusal = this.#refusal(head, isDecoupledCall)
    if (refusal === null) this.#services.infer(request)
    else request.fail(ServerError.withoutStack('INTERNAL', refusal))
    isEnqueuing = false
  }

  cancel(callId: number): void {
    this.#running.get(callId)?.cancel()
  }

  /** The calling worker is gone: nobody waits for the calls under way. */
  close(): void {
    this.#isClosed = true
    for (const [, request] of this.#running.entries()) request.cancel()
    this.#running.clear()
  }

  #refusal(head: BlsHead, isDecoupledCall: boolean): string | null {
    // -1 is the default; no model has another version below zero.
    const model = head.version < -1 ? null : this.#services.findReadyModel(head.model, versionOf(head))
    if (model === null) return `Failed for execute the inference request. Model '${head.model}' is not ready.`
    if (!model.isDecoupled || isDecoupledCall) return null
    return (
      `Model ${head.model} is using the decoupled. The current BLS request call doesn't support models using the ` +
      "decoupled transaction policy. Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for " +
      "decoupled models.'"
    )
  }

  #answer(callId: number, head: BlsHead, response: InferenceResponse, isRefusal: boolean): void {
    try {
      if (this.#isClosed) return
      const { error } = response
      const prefix = isRefusal ? `Model ${head.model} - Error when running inference: ` : ''
      const errorText = error === null ? null : prefix + error.message
      this.#send(encodeBlsResponse(callId, response, errorText, this.#regions))
    } catch (reason) {
      const failure = InferenceResponse.failure(ServerError.from(reason), response.isFinal)
      this.#send(encodeBlsResponse(callId, failure, ServerError.from(reason).message, this.#regions))
    } finally {
      response.release()
    }
  }
}

const versionOf = ({ version }: BlsHead): string => (version === -1 ? '' : String(version))

function requestOf(
  head: BlsHead,
  inputs: Tensor[],
  sink: (response: InferenceResponse, request: InferenceRequest) => void,
): InferenceRequest {
  return new InferenceRequest({
    modelName: head.model,
    modelVersion: versionOf(head),
    id: head.id,
    inputs,
    requestedOutputs: head.outputs,
    ...(head.parameters === null ? {} : { parameters: parseParameters(head.parameters) }),
    correlationId: head.correlationId ?? BigInt(head.correlationNumber),
    isSequenceStart: (head.flags & requestFlags.sequenceStart) !== 0,
    isSequenceEnd: (head.flags & requestFlags.sequenceEnd) !== 0,
    priority: BigInt(head.priority),
    timeoutUs: BigInt(head.timeoutUs),
    sink,
  })
}
