// Everything the command line decides, as plain values: what startServer builds a server from. Types only.

export type ModelControlMode = 'none' | 'poll' | 'explicit'

/** What one inference request may hold; a refusal names the flag that moves the limit. */
export type RequestLimits = {
  /** `--max-request-tensors`: inputs, and as many outputs. */
  readonly maxTensors: number
  /** `--max-tensor-rank` */
  readonly maxRank: number
  /** `--max-request-parameters` */
  readonly maxParameters: number
  /** `--max-request-id-bytes` */
  readonly maxIdBytes: number
}

/** One `--http-restricted-api=<api>,<api>:<key>=<value>`: these APIs answer only to requests with that header. */
export type RestrictedApis = {
  readonly apis: readonly string[]
  readonly key: string
  readonly value: string
}

export type HttpOptions = {
  readonly address: string
  /** 0 lets the system choose one. */
  readonly port: number
  readonly reusePort: boolean
  /** The most bytes of a request's body, as sent and after decompression. */
  readonly maxInputBytes: number
  /**
   * True: maxInputBytes bounds every body. False (`--triton-defaults`): as in Triton the uncompressed bytes of binary
   * tensors beside a JSON head are not counted; JSON text, JSON tensors, raw binary and decompressed bodies are.
   */
  readonly boundsBinaryBodies: boolean
  readonly headersTimeoutMs: number
  readonly bodyIdleTimeoutMs: number
  readonly keepAliveTimeoutMs: number
  /** 0: as many as the system gives. */
  readonly maxConnections: number
  readonly maxHeaderBytes: number
  /** Request headers whose name matches this regular expression become request parameters; '' forwards none. */
  readonly headerForwardPattern: string
  readonly restrictedApis: readonly RestrictedApis[]
}

export type LogFormat = 'default' | 'ISO8601' | 'json'

export type LogSettings = {
  /** '' writes INFO and verbose lines to stdout, warnings and errors to stderr. */
  readonly file: string
  readonly isInfoOn: boolean
  readonly isWarningOn: boolean
  readonly isErrorOn: boolean
  readonly verboseLevel: number
  readonly format: LogFormat
}

export type ServerOptions = {
  /** The name in `GET /v2`. */
  readonly id: string
  /** The version in `GET /v2`. */
  readonly reportedVersion: string
  readonly modelRepositories: readonly string[]
  readonly modelControlMode: ModelControlMode
  readonly repositoryPollSecs: number
  /** Models to load at start in explicit mode; `*` alone means all. */
  readonly loadModels: readonly string[]
  /** '' : config.pbtxt. Else `configs/<name>.pbtxt` where a model has it. */
  readonly modelConfigName: string
  readonly hasModelNamespacing: boolean
  readonly isAutoCompleteDisabled: boolean
  readonly isStrictReadiness: boolean
  readonly exitOnError: boolean
  readonly exitTimeoutSecs: number
  /** '' : none. */
  readonly backendDirectory: string
  /** Backend → key → value; the backend '' holds what is set for all of them. */
  readonly backendConfig: ReadonlyMap<string, ReadonlyMap<string, string>>
  readonly modelLoadThreadCount: number
  readonly modelLoadRetryCount: number
  /** For a model that sets no `max_queue_size`. 'auto' = max(100, 8 × max_batch_size × instances). */
  readonly defaultMaxQueueSize: 'auto' | 'unlimited' | number
  readonly requestLimits: RequestLimits
  /** null: `--allow-http=false`. */
  readonly http: HttpOptions | null
  readonly log: LogSettings
  /** `--triton-defaults`: Triton's choices where Galatea's are safer. */
  readonly hasTritonDefaults: boolean
}
