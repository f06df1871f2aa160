// What a running model may ask of the server. Given to backends as a constructor argument; the engine is behind it.

import type { CustomMetrics } from './custom-metrics.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { ModelConfig } from '../config/model-config.ts'

export interface ModelServices {
  /** Runs a request by its model's name, like a client's. It ends through the request's sink, whatever happens. */
  infer(request: InferenceRequest): void
  /** Null when the model or version ('' = the one that the policy picks) is not ready to serve. */
  findReadyModel(name: string, version: string): { readonly isDecoupled: boolean } | null
  /** Rejects with ServerError when models cannot be loaded by request, or this one fails to load. */
  loadModel(name: string, config: string, files: ReadonlyMap<string, Uint8Array>): Promise<void>
  unloadModel(name: string, unloadDependents: boolean): Promise<void>
  /** The configuration as the JSON text that Triton gives a model. */
  encodeConfig(config: ModelConfig): string
  readonly metrics: CustomMetrics
}
