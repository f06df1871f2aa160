import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { RequestTrace } from '../model/inference-request.ts'
import type { TraceOrigin, TraceStamp } from '../model/trace-stamp.ts'
import type { TraceLevel } from '../model/trace-control.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { tensorText } from './tensor-text.ts'

type TimestampTraceSettings = {
  readonly levels: readonly TraceLevel[]
  /** A number for each trace, those of children too. */
  readonly nextId: () => number
}

/** One request's records in Triton's JSON form, handed over when the last holder lets go. */
export class TimestampTrace implements RequestTrace {
  readonly context: TraceOrigin | null = null
  readonly id: number
  readonly #settings: TimestampTraceSettings
  readonly #parentId: number
  readonly #hasTimestamps: boolean
  readonly #hasTensors: boolean
  readonly #records: string[] = []
  readonly #onEnd: (records: readonly string[]) => void
  #isComposed = false
  #holders = 1

  /** A trace without a parent has the parent 0. */
  constructor(
    settings: TimestampTraceSettings,
    parentId: number,
    arrival: readonly TraceStamp[],
    onEnd: (records: readonly string[]) => void,
  ) {
    const { levels } = settings
    this.id = settings.nextId()
    this.#settings = settings
    this.#parentId = parentId
    this.#hasTimestamps = levels.includes('TIMESTAMPS')
    this.#hasTensors = levels.includes('TENSORS')
    this.#onEnd = onEnd
    for (const [name, ns] of arrival) this.stamp(name, ns)
  }

  admitted(request: InferenceRequest, version: string, isComposed: boolean): void {
    this.#isComposed = isComposed
    if (this.#hasTimestamps) {
      const id = request.id === '' ? '' : `,"request_id":${JSON.stringify(request.id)}`
      const parent = this.#parentId === 0 ? '' : `,"parent_id":${this.#parentId}`
      this.#add(`"model_name":${JSON.stringify(request.modelName)},"model_version":${Number(version)}${id}${parent}`)
      this.stamp('REQUEST_START', request.receivedNs)
    }
    if (this.#hasTensors) for (const tensor of request.inputs) this.#addTensor('TENSOR_QUEUE_INPUT', tensor)
  }

  responded(request: InferenceRequest, response: InferenceResponse): void {
    if (this.#hasTensors) for (const tensor of response.outputs) this.#addTensor('TENSOR_BACKEND_OUTPUT', tensor)
    if (!response.isFinal) {
      this.stamp('INFER_RESPONSE_COMPLETE', request.endNs)
      return
    }
    this.stamp('QUEUE_START', request.queueStartNs)
    // The times of an ensemble are those of its steps added up, and each step has a trace of its own.
    if (!this.#isComposed) {
      this.stamp('COMPUTE_START', request.computeStartNs)
      this.stamp('COMPUTE_INPUT_END', request.computeInputEndNs)
      this.stamp('COMPUTE_OUTPUT_START', request.computeOutputStartNs)
      this.stamp('COMPUTE_END', request.computeEndNs)
    }
    this.stamp('INFER_RESPONSE_COMPLETE', request.endNs)
    this.stamp('REQUEST_END', request.endNs)
  }

  stamp(name: string, ns: number): void {
    // 0 is the time of a stage that was not reached.
    if (!this.#hasTimestamps || ns === 0) return
    this.#add(`"timestamps":[{"name":"${name}","ns":${Math.round(ns)}}]`)
  }

  /** The records of the child are written with those of this trace. */
  beginChild(child: InferenceRequest): void {
    this.retain()
    child.trace = new TimestampTrace(this.#settings, this.id, [], (records) => {
      this.#records.push(...records)
      this.release()
    })
  }

  retain(): void {
    this.#holders++
  }

  release(): void {
    if (--this.#holders === 0) this.#onEnd(this.#records)
  }

  #add(members: string): void {
    this.#records.push(`{"id":${this.id},${members}}`)
  }

  #addTensor(activity: string, tensor: Tensor): void {
    const { name, dataType, shape } = tensor
    const text = JSON.stringify({ name, data: tensorText(tensor), shape: shape.join(','), dtype: dataType })
    this.#add(`"activity":"${activity}","tensor":${text}`)
  }
}
