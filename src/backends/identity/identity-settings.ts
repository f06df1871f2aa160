import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'

/** The `parameters` of a model, with Triton's names and meaning. */
export type IdentitySettings = {
  readonly executeDelayMs: number
  readonly instanceWiseDelayMultiplier: number
  readonly creationDelayMs: number
  /** Triton's identity backend always adds four example parameters to a response; here a model must ask for them. */
  readonly hasResponseParameters: boolean
}

export function identitySettings(config: ModelConfig): IdentitySettings {
  return {
    executeDelayMs: readParameter(config, 'execute_delay_ms') ?? 0,
    instanceWiseDelayMultiplier: readParameter(config, 'instance_wise_delay_multiplier') ?? 0,
    creationDelayMs: (readParameter(config, 'creation_delay_sec') ?? 0) * 1000,
    hasResponseParameters: readParameter(config, 'response_parameters') ?? false,
  }
}
