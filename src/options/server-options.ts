// What the command line decides, as plain values. `startServer` builds a server from these options. Types only.

import type { LinearPattern } from '../base/linear-pattern.ts'
import type { RedisCacheOptions } from '../engine/cache/redis-response-cache.ts'
import type { GrpcOptions } from '../ports/grpc/grpc-options.ts'
import type { HttpOptions } from '../ports/http/http-options.ts'
import type { OpenTelemetryOptions } from '../telemetry/otlp/open-telemetry.ts'

type ModelControlMode = 'none' | 'poll' | 'explicit'

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
  /** `--http-allowed-hosts` */
  readonly allowedHosts: readonly string[]
  /** 0 lets the system choose one. */
  readonly port: number
  /** The time between two looks at the machine. */
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
  /** `--metrics-config histogram_latencies`; never with `--triton-defaults`: that version of Triton does not have it. */
  readonly hasFirstResponses: boolean
  /** `--galatea-metrics`: the families that Triton does not have. */
  readonly hasOwnFamilies: boolean
}

export type TraceOptions = {
  /** Empty: tracing is off at the start. */
  readonly levels: readonly ('TIMESTAMPS' | 'TENSORS')[]
  readonly rate: number
  readonly count: number
  readonly logFrequency: number
  /** '' : none. Without a file, tracing cannot be switched on in mode `triton`. */
  readonly file: string
  /** Null: mode `triton`. */
  readonly openTelemetry: OpenTelemetryOptions | null
}

/** What an Engine is built from, in a server and embedded. */
export type EngineSettings = {
  /** The name in `GET /v2`. */
  readonly id: string
  /** The version in `GET /v2`. */
  readonly reportedVersion: string
  readonly modelRepositories: readonly string[]
  /** Front ends serve folders that lie in none of the repositories, under names of their own. */
  readonly mapsFolders: boolean
  /** `--model-cache-dir`: what is downloaded from cloud repositories; '' chooses a folder of the user's. */
  readonly modelCacheDirectory: string
  /** `--model-cache-limit`; Infinity for none. */
  readonly modelCacheLimitBytes: number
  readonly modelControlMode: ModelControlMode
  readonly repositoryPollSecs: number
  /** Models to load at start in explicit mode; `*` alone means all. */
  readonly loadModels: readonly string[]
  /** '' : config.pbtxt. Else `configs/<name>.pbtxt` where a model has it. */
  readonly modelConfigName: string
  readonly hasModelNamespacing: boolean
  readonly isAutoCompleteDisabled: boolean
  /** Which names the metrics of language models have: Galatea's, or vLLM's beside them. */
  readonly languageMetricNames: 'galatea' | 'vllm'
  readonly isStrictReadiness: boolean
  /** '' : none. */
  readonly backendDirectory: string
  /** Backend → key → value; the backend '' holds what is set for all of them. */
  readonly backendConfig: ReadonlyMap<string, ReadonlyMap<string, string>>
  readonly modelLoadThreadCount: number
  readonly modelLoadRetryCount: number
  readonly modelLoadRetryDelayMs: number
  /** `--model-memory-limit`: what models may take together; 0 for no limit. */
  readonly modelMemoryLimitBytes: number
  /** The same by GPU. */
  readonly gpuMemoryLimitBytes: ReadonlyMap<number, number>
  /** `--model-lazy-load`: models that do not say otherwise are loaded on the first request. */
  readonly isModelLoadLazy: boolean
  /** `--model-idle-unload-secs`: after so long without a request a model leaves the memory; 0 for never. */
  readonly modelIdleUnloadSecs: number
  /** For a model that sets no `max_queue_size`. 'auto': see `queueBound`. */
  readonly defaultMaxQueueSize: 'auto' | 'unlimited' | number
  /** `--queue-delay-target`: above this delay an overload is looked for; 0: it is not. */
  readonly queueDelayTargetMs: number
  /** TRITONSERVER_DELAY_SCHEDULER and TRITONSERVER_BACKLOG_DELAY_SCHEDULER; null: no model waits for them. */
  readonly startHold: { readonly requestCount: number; readonly backlogCount: number } | null
  /** `--model-max-execution-secs`: of models without `max_execution_ms`; 0 for no limit. */
  readonly maxExecutionSecs: number
  /** `--allow-pickle-models`: scikit-learn models that are pickles run whatever code is in them. */
  readonly allowsPickleModels: boolean
  /** `--allow-model-uploads`: load requests may bring the model's files, which the server then runs. */
  readonly allowsModelUploads: boolean
  /** `--python-env`: what the processes of models get beside what they need; null: the server's whole environment. */
  readonly pythonEnvironment: readonly string[] | null
  /** `--cache-config`; null: no answers are kept. */
  readonly responseCache: ResponseCacheOptions | null
  /** null: `--rate-limit=off`. Resources by `name` or `name:device`; null: each as large as its largest claim. */
  readonly rateLimit: { readonly resources: ReadonlyMap<string, number> | null } | null
  /** `--triton-defaults`: refuse what Triton's way of leaving out unneeded ensemble steps refuses. */
  readonly runsEnsemblesLikeTriton: boolean
  /** `--triton-defaults`: errors have Triton's codes and texts, in place of 4xx for every mistake of a client. */
  readonly wordsErrorsLikeTriton: boolean
  /** `--min-supported-compute-capability`: GPUs below it are not used. */
  readonly minComputeCapability: number
  /** `--cuda-memory-pool-byte-size`, by GPU: what inputs and outputs keep there between batches. */
  readonly gpuPoolBytes: ReadonlyMap<number, number>
  /** `--pinned-memory-pool-byte-size`: memory of the host that GPUs copy from and to by themselves. */
  readonly pinnedPoolBytes: number
  /** `--model-load-gpu-limit`, by GPU: the share of its memory above which nothing more is loaded. */
  readonly gpuLoadLimits: ReadonlyMap<number, number>
  /** `--host-policy`, by the name of the policy and the key of the setting. */
  readonly hostPolicies: ReadonlyMap<string, ReadonlyMap<string, string>>
}

export type ResponseCacheOptions =
  { readonly kind: 'local'; readonly maxBytes: number } | ({ readonly kind: 'redis' } & RedisCacheOptions)

/** A further HTTP port. Its limits, its TLS and its restricted APIs are those of `sharedHttp`. */
export type FurtherPortOptions = {
  readonly address: string
  /** 0 lets the system choose one. */
  readonly port: number
  /** The most threads that read and write large JSON bodies of this port. */
  readonly threadCount: number
}

export type SagemakerOptions = FurtherPortOptions & {
  /** Where the other ports may be; null: anywhere. */
  readonly safePorts: { readonly from: number; readonly to: number } | null
  /** The url of a model that SageMaker loads lies below this folder. */
  readonly modelRoot: string
  /** SAGEMAKER_TRITON_PING_MODE */
  readonly pingMode: 'ready' | 'live'
  /** SAGEMAKER_TRITON_INFERENCE_TYPE: what /invocations takes. */
  readonly inferenceType: 'infer' | 'generate' | 'generate_stream'
  /** SAGEMAKER_TRITON_DEFAULT_MODEL_NAME; '' for the only model there is. */
  readonly defaultModel: string
}

export type TorchserveOptions = FurtherPortOptions & {
  readonly managementAddress: string
  readonly managementPort: number
  readonly metricsAddress: string
  readonly metricsPort: number
  readonly grpcAddress: string
  readonly grpcManagementAddress: string
  /** Null: no predictions by gRPC. */
  readonly grpcPort: number | null
  /** Null: no management by gRPC. */
  readonly grpcManagementPort: number | null
  /** '' for none. */
  readonly modelStore: string
  /** Registered at the start. The name '' is that of the archive; the url `all` is every archive of the store. */
  readonly models: readonly { readonly name: string; readonly url: string }[]
  readonly allowsModelApi: boolean
  readonly allowedUrls: readonly LinearPattern[]
  /** Of models of the command line. */
  readonly defaultWorkers: number
  /** Of models that clients register. */
  readonly registeredWorkers: number
  /** By the names of models and versions, under the keys of model-config.yaml. */
  readonly modelSettings: Readonly<Record<string, unknown>>
  /** '' for none. */
  readonly defaultHandler: string
  readonly jobQueueSize: number
  readonly responseTimeoutSecs: number
  readonly decodesInput: boolean
  readonly serviceEnvelope: string
  readonly installsRequirements: boolean
  readonly maxArchiveBytes: number
  readonly maxUnpackedBytes: number
}

type OpenAiOptions = {
  readonly address: string
  /** Null: the OpenAI API has no port of its own. */
  readonly port: number | null
}

type VertexAiOptions = FurtherPortOptions & {
  /** '' for the only model there is. */
  readonly defaultModel: string
  /** AIP_PREDICT_ROUTE */
  readonly predictRoute: string
  /** AIP_HEALTH_ROUTE */
  readonly healthRoute: string
}

export type TfservingOptions = {
  readonly address: string
  /** Null: TensorFlow Serving's REST API has no port of its own. */
  readonly port: number | null
  readonly threadCount: number
  /** Name → folder. */
  readonly models: ReadonlyMap<string, string>
  /** '' : none. */
  readonly modelConfigFile: string
  /** 0: the file is read once. */
  readonly modelConfigPollSecs: number
  readonly isBatching: boolean
  /** '' : TensorFlow Serving's defaults. */
  readonly batchingFile: string
  /** Of every model without a configuration of its own. */
  readonly modelParameters: ReadonlyMap<string, string>
  /** Of a request to the REST API; 0: no limit. */
  readonly timeoutMs: number
  /** '' : the gRPC port has what its own flags say. */
  readonly sslConfigFile: string
  readonly allowsReload: boolean
  /** Where the port shows metrics; '' : nowhere. */
  readonly monitoringPath: string
}

/** `--allow-jobs` */
export type JobOptions = {
  /** `--job`: the text as it was given, and what it says. */
  readonly atStart: readonly { readonly text: string; readonly body: unknown }[]
  /** `--jobs-dir`: files are read and written below this folder; '' for no files. */
  readonly filesRoot: string
  /** `--jobs-cloud`: places in S3, Google Cloud Storage or Azure below which jobs read and write. */
  readonly cloudRoots: readonly string[]
  /** `--jobs-cloud-part-bytes` */
  readonly cloudPartBytes: number
  /** `--jobs-redis`; '' for none. */
  readonly redisUrl: string
  /** `--jobs-rabbitmq`; '' for none. */
  readonly rabbitmqUrl: string
  /** `--jobs-kafka`: brokers. */
  readonly kafkaBrokers: readonly string[]
}

/** The server as a process among others on its machine: its files, its liveness, its end. */
type ProcessOptions = {
  readonly log: LogSettings
  /** `--access-log`: '' for none, '-' for stdout. */
  readonly accessLogFile: string
  /** `--access-config`: '' lets everybody do everything. */
  readonly accessConfigFile: string
  /** `--actions`: what alerts make the server do; '' : nothing. */
  readonly actionsFile: string
  /** `--cost-per-hour`: what the server costs; 0 when nobody said. */
  readonly costPerHour: number
  readonly currency: string
  /** `--audit-log`: where changes of models are put on record; '' for memory only. */
  readonly auditLogFile: string
  /** `--state-dir`: where rollouts outlive the server. */
  readonly stateDirectory: string
  /** `--rollout-store`: the Redis through which servers share rollouts; '' for none. */
  readonly rolloutStoreUrl: string
  /** `--prometheus-url`: answers the queries of rollouts; '' for none. */
  readonly prometheusUrl: string
  /** `--notify-secret-env`: the environment variables that may sign notifications of rollouts. */
  readonly notifySecretNames: readonly string[]
  /** `--allow-fault-injection`: clients of the group `rollouts`, and Envoy's headers, may ask for faults. */
  readonly allowsFaultInjection: boolean
  /** `--country-header`, in lower case: the header in which a proxy says the country of the client; '' for none. */
  readonly countryHeader: string
  /** `--geoip-database`: says the country of an address; '' for none. */
  readonly geoipFile: string
  /** `--trusted-proxies`: whose X-Forwarded-For is believed. */
  readonly trustedProxies: string
  /** `--client-memory-limit`; Infinity for none. */
  readonly clientMemoryLimitBytes: number
  /** `--max-decompression-ratio`: how many times a compressed request may grow; Infinity for no bound. */
  readonly maxDecompressionRatio: number
  /** `--allow-client-shared-memory`: clients on this machine may register regions of shared memory. */
  readonly allowsClientSharedMemory: boolean
  /** `--allow-remote-shared-memory`: clients at addresses that are not this machine's may, too. */
  readonly allowsRemoteSharedMemory: boolean
  /** `--allow-foreign-shared-memory`: memory that another user keeps to himself, which only root can open, may be registered. */
  readonly allowsForeignSharedMemory: boolean
  readonly exitOnError: boolean
  /** `--orca` */
  readonly loadTelling: 'off' | 'asked' | 'always'
  /** `--listen-while-loading`: the ports are open before the models are loaded. */
  readonly listensWhileLoading: boolean
  readonly exitTimeoutSecs: number
  /** `--live-check=compute`: a Worker that shows no sign of life for so long hangs; 0 with `--live-check=server`. */
  readonly liveCheckTimeoutSecs: number
}

/**
 * One group for each part of a server. Tracing is a group of its own, because it stands beside the Engine: an embedded
 * Engine is not traced.
 */
export type ServerOptions = {
  readonly engine: EngineSettings
  /** null: `--allow-http=false`. */
  readonly http: HttpOptions | null
  /** null: `--allow-grpc=false`. */
  readonly grpc: GrpcOptions | null
  /** What every HTTP port shares, also where `--allow-http=false` leaves `http` null. Its port and address are not used. */
  readonly sharedHttp: HttpOptions
  /** Those of `grpc`, also where that is off: further gRPC ports have them. */
  readonly sharedGrpc: GrpcOptions
  /** null: `--allow-metrics=false`. */
  readonly metrics: MetricsOptions | null
  /** null: `--allow-sagemaker=false`. */
  readonly sagemaker: SagemakerOptions | null
  /** null: `--allow-tfserving=false`. */
  readonly tfserving: TfservingOptions | null
  /** null: `--allow-vertex-ai=false`. */
  readonly vertexAi: VertexAiOptions | null
  readonly openAi: OpenAiOptions
  /** null: `--allow-torchserve=false`. */
  readonly torchserve: TorchserveOptions | null
  /** null: `--allow-jobs=false`. */
  readonly jobs: JobOptions | null
  readonly trace: TraceOptions
  readonly process: ProcessOptions
}
