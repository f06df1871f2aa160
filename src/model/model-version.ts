import type { ModelConfig } from '../config/model-config.ts'
import type { ModelSignature } from '../config/model-signature.ts'

/** LOADING → READY → UNLOADING → UNAVAILABLE; LOADING → UNAVAILABLE when loading fails. */
export type ModelVersionState = 'LOADING' | 'READY' | 'UNLOADING' | 'UNAVAILABLE'

/** One numbered version of a model, as front ends see it. */
export interface ModelVersion {
  readonly name: string
  readonly version: string
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly state: ModelVersionState
}
