// A TorchServe archive, as its manifest and model-config.yaml describe it, and how it is served.

export type TorchArchive = {
  /** As the manifest names the model. */
  readonly name: string
  /** Any text, such as `1.0`. */
  readonly version: string
  readonly runtime: string
  /** '' where the manifest names none. */
  readonly handler: string
  /** What model-config.yaml says; an object without keys where there is no such file. */
  readonly config: Readonly<Record<string, unknown>>
  /** '' where the archive has none. */
  readonly requirementsFile: string
  /** The handler sends answers in pieces. */
  readonly answersInPieces: boolean
}

export type TorchServing = {
  readonly batchSize: number
  readonly maxBatchDelayMs: number
  readonly workers: number
  readonly jobQueueSize: number
  /** Versions to serve; empty: the version policy is left out. */
  readonly versions: readonly number[]
  readonly decodesInput: boolean
  /** '' for none. */
  readonly serviceEnvelope: string
  /** In place of the manifest's; '' for that. */
  readonly handler: string
  /** 0: no limit. */
  readonly responseTimeoutSecs: number
  readonly startupTimeoutSecs: number
  /** At least `workers` counts. */
  readonly maxWorkers: number
}

/** By the names of models and versions: what `models` of config.properties says, under the keys of model-config.yaml. */
export type TorchModelSettings = Readonly<Record<string, unknown>>

export type PreparedArchive = { readonly archive: TorchArchive; readonly serving: TorchServing }
export type UnpackedArchive = PreparedArchive & { readonly folder: string }
