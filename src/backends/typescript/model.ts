// The types of a model written in TypeScript, part of `galatea/model`.

import type { ModelConfig } from '../../config/model-config.ts'
import type { InferenceError } from './inference-error.ts'
import type { ModelMetrics } from './model-metrics.ts'
import type { ModelDescription } from './model-description.ts'
import type { ModelRequest } from './model-request.ts'
import type { ModelResponse } from './model-response.ts'
import type { Reschedule } from './reschedule.ts'
import type { ModelPlace } from './worker-protocol.ts'

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

/** The argument of `initialize`. */
export type ModelArgs = ModelPlace & {
  readonly modelConfig: ModelConfig
  readonly log: ModelLog
  /** Custom metrics of the model, shown on the metrics page of the server. */
  readonly metrics: ModelMetrics
}

type OneAnswer = ModelResponse | InferenceError | Reschedule

/** One answer, several in a row, or an error: for one request. Null leaves the answer to `request.sender`. */
export type Answer = OneAnswer | AsyncIterable<OneAnswer> | null | undefined | void

/** A model: `infer` for one request at a time, or `execute` for all requests of a batch together. */
export type Model = {
  /** Settings that config.pbtxt may leave out. */
  readonly config?: ModelDescription
  autoCompleteConfig?(config: ModelConfig): ModelDescription | Promise<ModelDescription>
  initialize?(args: ModelArgs): void | Promise<void>
  /** One answer per request, in order. */
  execute?(requests: readonly ModelRequest[]): BatchAnswer | Promise<BatchAnswer>
  infer?(request: ModelRequest): Answer | Promise<Answer>
  /** Called every second; false takes the instance out of service. */
  isReady?(): boolean | Promise<boolean>
  finalize?(): void | Promise<void>
}

export type BatchAnswer = readonly (Answer | Promise<Answer>)[] | AsyncIterable<OneAnswer> | void

/** Returns `model` unchanged, with its types checked: `export default defineModel({ … })`. */
export const defineModel = <T extends Model>(model: T): T => model
