// What a model's parameters and the server's defaults say about when it is in memory.

import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'

export type ResidencyDefaults = {
  /** `--model-lazy-load` */
  readonly isLazy: boolean
  /** `--model-idle-unload-secs`; 0: never. */
  readonly idleUnloadSecs: number
}

export type Residency = {
  /** The first request loads the model. */
  readonly isLazy: boolean
  /** Once loaded, the model stays in memory, even when others need room. */
  readonly isKeptWarm: boolean
  /** Without a request for so long the model is put to sleep; 0: never. */
  readonly idleUnloadNs: number
  /** The bytes that the configuration declares; null: none are declared. */
  readonly declaredBytes: number | null
  /** The same, of each GPU that the model is on. */
  readonly declaredGpuBytes: number | null
}

/** Throws INVALID_ARG for a value that cannot be read: without the error the value would be ignored. */
export function residencyOf(config: ModelConfig, defaults: ResidencyDefaults): Residency {
  return {
    isLazy: readParameter(config, 'lazy') ?? defaults.isLazy,
    isKeptWarm: readParameter(config, 'keep_warm') ?? false,
    idleUnloadNs: (readParameter(config, 'idle_unload_secs') ?? defaults.idleUnloadSecs) * 1e9,
    declaredBytes: readParameter(config, 'memory_bytes'),
    declaredGpuBytes: readParameter(config, 'gpu_memory_bytes'),
  }
}
