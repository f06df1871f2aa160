// The services of the server for running models. Backends get them as a constructor argument. The engine has them.

import type { CustomMetrics } from './custom-metrics.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { ModelConfig } from '../config/model-config.ts'

export interface ModelServices {
  /** Runs a request on the model that it names, as for a client. The request's sink always gets a final response. */
  infer(request: InferenceRequest): void
  /** Null when the model or version ('' = the version that the policy picks) is not ready to serve. */
  findReadyModel(name: string, version: string): { readonly isDecoupled: boolean } | null
  /** Rejects with ServerError when models cannot be loaded by request, or when this model fails to load. */
  loadModel(name: string, config: string, files: ReadonlyMap<string, Uint8Array>): Promise<void>
  unloadModel(name: string, unloadDependents: boolean): Promise<void>
  /** The configuration as the JSON text that Triton gives a model. */
  encodeConfig(config: ModelConfig): string
  readonly metrics: CustomMetrics
}
