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
  /** How long a client may take no byte of its answer. */
  readonly writeIdleTimeoutMs: number
  readonly keepAliveTimeoutMs: number
  /** 0: as many as the system gives. */
  readonly maxConnections: number
  readonly maxHeaderBytes: number
  /** Request headers whose name matches this regular expression become request parameters; '' forwards none. */
  readonly headerForwardPattern: string
  readonly restrictedApis: readonly RestrictedApis[]
  /** Null: plain HTTP. Paths of PEM files; `root` signs clients' certificates and is '' without mutual TLS. */
  readonly tls: {
    readonly certificate: string
    readonly key: string
    readonly root: string
    readonly isMutual: boolean
  } | null
}

/** TLS of the gRPC port: PEM files. */
export type GrpcTls = {
  readonly certificate: string
  readonly key: string
  /** '' : none. */
  readonly root: string
  /** Clients must show a certificate that the root vouches for. */
  readonly isMutual: boolean
}

export type GrpcOptions = {
  readonly address: string
  /** 0 lets the system choose one. */
  readonly port: number
  readonly reusePort: boolean
  /** The most bytes of one message, as sent and after decompression. */
  readonly maxMessageBytes: number
  /** What a stream's client may leave unread before its answers are stopped. */
  readonly maxBacklogBytes: number
  /** null: no TLS. */
  readonly tls: GrpcTls | null
  readonly compressionLevel: 'none' | 'low' | 'medium' | 'high'
  readonly keepaliveTimeMs: number
  readonly keepaliveTimeoutMs: number
  readonly keepaliveWithoutCalls: boolean
  readonly maxPingsWithoutData: number
  readonly minPingIntervalMs: number
  readonly maxPingStrikes: number
  /** 0: no limit. */
  readonly maxConnectionAgeMs: number
  /** 0: no limit. */
  readonly maxConnectionAgeGraceMs: number
  /** Metadata whose name matches this regular expression becomes request parameters; '' forwards none. */
  readonly headerForwardPattern: string
  readonly restrictedProtocols: readonly RestrictedApis[]
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

export type MetricsOptions = {
  readonly address: string
  /** 0 lets the system choose one. */
  readonly port: number
  /** Between two looks at the machine. */
  readonly intervalMs: number
  /** `--allow-gpu-metrics` */
  readonly hasGpu: boolean
  /** `--allow-cpu-metrics` */
  readonly hasHost: boolean
  /** `--metrics-config counter_latencies` */
  readonly hasCounters: boolean
  /** `--metrics-config summary_latencies` */
  readonly hasSummaries: boolean
  readonly quantiles: readonly number[]
  /** `--metrics-config histogram_latencies`; never with `--triton-defaults`, whose version has it not. */
  readonly hasFirstResponses: boolean
  /** `--galatea-metrics`: the families that Triton does not have. */
  readonly hasOwnFamilies: boolean
}

/** Triton's trace mode `triton`. */
export type TraceOptions = {
  /** Empty: off at start. */
  readonly levels: readonly ('TIMESTAMPS' | 'TENSORS')[]
  readonly rate: number
  readonly count: number
  readonly logFrequency: number
  /** '' : none, and then tracing cannot be switched on. */
  readonly file: string
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
  /** `--cache-config=local,size=N`; 0: no answers are kept. */
  readonly responseCacheBytes: number
  /** `--triton-defaults`: refuse what Triton's way of leaving out unneeded ensemble steps refuses. */
  readonly prunesEnsemblesLikeTriton: boolean
  readonly requestLimits: RequestLimits
  /** `--allow-client-shared-memory`: clients may register regions of shared memory. */
  readonly allowsClientSharedMemory: boolean
  /** null: `--allow-http=false`. */
  readonly http: HttpOptions | null
  /** null: `--allow-grpc=false`. */
  readonly grpc: GrpcOptions | null
  /** null: `--allow-metrics=false`. */
  readonly metrics: MetricsOptions | null
  readonly log: LogSettings
  readonly trace: TraceOptions
  /** `--triton-defaults`: Triton's choices where Galatea's are safer. */
  readonly hasTritonDefaults: boolean
}
