// `galatea/model`: what a model or backend written in TypeScript imports. Everything exported here is public API.

import type { ModelConfig } from '../../config/model-config.ts'
import type { InferenceError } from './inference-error.ts'
import type { ModelMetrics } from './model-metrics.ts'
import type { ModelDescription } from './model-description.ts'
import type { ModelRequest } from './model-request.ts'
import type { ModelResponse } from './model-response.ts'
import type { Reschedule } from './reschedule.ts'
import type { ModelPlace } from './worker-protocol.ts'

export type { ErrorCode } from '../../base/server-error.ts'
export type { DataType } from '../../tensor/data-type.ts'
export type { Shape } from '../../tensor/shape.ts'
export type { ModelConfig } from '../../config/model-config.ts'
export { InferenceError } from './inference-error.ts'
export { bf16FromNumber, bf16ToFloat32 } from './element-arrays.ts'
export { fromBytes, fromStrings, ModelTensor as Tensor, tensor } from './model-tensor.ts'
export type { TensorValues } from './model-tensor.ts'
export type { Counter, Gauge, Histogram, MetricLabels, ModelMetrics } from './model-metrics.ts'
export type { ModelRequest } from './model-request.ts'
export type { ModelResponse } from './model-response.ts'
export type { ModelDescription } from './model-description.ts'
export { reschedule } from './reschedule.ts'
export type { Reschedule } from './reschedule.ts'
export { defineBackend } from './backend-api.ts'
export type { BackendContext, CustomBackendModule, InstanceContext, ModelContext } from './backend-api.ts'
export type { ResponseSender, SendOptions } from './response-sender.ts'

type LogLine = (
  message: string,
  fields?: Readonly<Record<string, string | number | boolean | bigint | null | undefined>>,
) => void

/** Writes to the server's log, with the model's name. */
export type ModelLog = {
  readonly error: LogLine
  readonly warning: LogLine
  readonly info: LogLine
  readonly verbose: LogLine
}

/** What `initialize` is told. */
export type ModelArgs = ModelPlace & {
  readonly modelConfig: ModelConfig
  readonly log: ModelLog
  /** Metrics of its own, shown on the page of all of them. */
  readonly metrics: ModelMetrics
}

type OneAnswer = ModelResponse | InferenceError | Reschedule

/** One answer, several in a row, or an error: for one request. Null leaves the answer to `request.sender`. */
export type Answer = OneAnswer | AsyncIterable<OneAnswer> | null | undefined | void

/** A model: `infer` for one request at a time, or `execute` for all requests of a batch together. */
export type Model = {
  /** What config.pbtxt need not say. */
  readonly config?: ModelDescription
  autoCompleteConfig?(config: ModelConfig): ModelDescription | Promise<ModelDescription>
  initialize?(args: ModelArgs): void | Promise<void>
  /** One answer per request, in order. */
  execute?(requests: readonly ModelRequest[]): BatchAnswer | Promise<BatchAnswer>
  infer?(request: ModelRequest): Answer | Promise<Answer>
  /** Asked every second; false takes the instance out of service. */
  isReady?(): boolean | Promise<boolean>
  finalize?(): void | Promise<void>
}

export type BatchAnswer = readonly (Answer | Promise<Answer>)[] | AsyncIterable<OneAnswer> | void

/** Does nothing but give `model` its types: `export default defineModel({ … })`. */
export const defineModel = <T extends Model>(model: T): T => model
