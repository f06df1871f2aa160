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
  /** Loaded on the first request for it. */
  readonly isLazy: boolean
  /** Once in memory it stays there, whoever else needs room. */
  readonly isKeptWarm: boolean
  /** Without a request for so long it leaves the memory; 0: it does not. */
  readonly idleUnloadNs: number
  /** What the model says it needs; null: it says nothing. */
  readonly declaredBytes: number | null
}

/** Throws INVALID_ARG for a value that cannot be read: without the error the value would be ignored. */
export function residencyOf(config: ModelConfig, defaults: ResidencyDefaults): Residency {
  return {
    isLazy: readParameter(config, 'lazy') ?? defaults.isLazy,
    isKeptWarm: readParameter(config, 'keep_warm') ?? false,
    idleUnloadNs: (readParameter(config, 'idle_unload_secs') ?? defaults.idleUnloadSecs) * 1e9,
    declaredBytes: readParameter(config, 'memory_bytes'),
  }
}
