// What every client can do, whichever protocol it speaks.

import type { DataType } from '../tensor/data-type.ts'
import type { Shape } from '../tensor/shape.ts'
import type { CallOptions, Inputs, InferOptions } from './infer-request.ts'
import type { InferResult } from './infer-result.ts'
import type { ClientSequence, SequenceOptions } from './client-sequence.ts'

export type ClientOptions = {
  /**
   * `http://localhost:8000`, `https://…`, or just `localhost:8000`. Of several, one is asked until it cannot be reached or says that it cannot
   * serve; then the next one.
   */
  readonly url: string | readonly string[]
  /** Sent with every call: secrets of restricted APIs, tracing. */
  readonly headers?: Readonly<Record<string, string>>
  /** For each call that does not say its own. Default: none. */
  readonly timeoutMs?: number
  /**
   * How often a call may be sent again, default 2, or the number of addresses when that is more. Reads and other idempotent calls are sent again after a broken
   * connection or UNAVAILABLE; everything else only when the request certainly never reached the server.
   */
  readonly retries?: number
  /**
   * Let inference be sent again after UNAVAILABLE too, and with several addresses also after a broken connection: only for models that may
   * see a request twice.
   */
  readonly retryUnavailable?: boolean
  /** Pack requests, and ask for packed answers. Default `none`: it costs more than it saves on a fast network. */
  readonly compression?: 'gzip' | 'deflate' | 'none'
  /** The longest answer to accept, unpacked. Default 2 GiB - 1. */
  readonly maxMessageBytes?: number
}

export type ModelOptions = CallOptions & { readonly version?: string | number }

export type ServerMetadata = {
  readonly name: string
  readonly version: string
  readonly extensions: readonly string[]
}

export type TensorMetadata = { readonly name: string; readonly dataType: DataType; readonly shape: Shape }

export type ModelMetadata = {
  readonly name: string
  readonly versions: readonly string[]
  readonly platform: string
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
}

/** The configuration as the server completed it, in the spelling of config.pbtxt. */
export type ModelConfig = {
  readonly name: string
  readonly platform: string
  readonly backend: string
  readonly max_batch_size: number
  readonly input: readonly ConfigTensor[]
  readonly output: readonly ConfigTensor[]
  readonly [field: string]: unknown
}

type ConfigTensor = {
  readonly name: string
  readonly data_type: string
  readonly dims: readonly number[]
  readonly [field: string]: unknown
}

export type StatisticDuration = { readonly count: number; readonly ns: number }

export type ModelStatistics = {
  readonly name: string
  readonly version: string
  /** Milliseconds since 1970; 0 when there was none. */
  readonly lastInference: number
  readonly inferenceCount: number
  readonly executionCount: number
  readonly inferenceStats: Readonly<
    Record<
      'success' | 'fail' | 'queue' | 'computeInput' | 'computeInfer' | 'computeOutput' | 'cacheHit' | 'cacheMiss',
      StatisticDuration
    >
  >
  /** By index of the response. */
  readonly responseStats: Readonly<
    Record<
      string,
      Readonly<
        Record<'computeInfer' | 'computeOutput' | 'success' | 'fail' | 'emptyResponse' | 'cancel', StatisticDuration>
      >
    >
  >
  readonly batchStats: readonly ({ readonly batchSize: number } & Readonly<
    Record<'computeInput' | 'computeInfer' | 'computeOutput', StatisticDuration>
  >)[]
  readonly memoryUsage: readonly { readonly type: string; readonly id: number; readonly byteSize: number }[]
}

export type IndexEntry = {
  readonly name: string
  /** Empty for a model that was never loaded. */
  readonly version: string
  readonly state: '' | 'READY' | 'UNAVAILABLE' | 'LOADING' | 'UNLOADING' | 'UNKNOWN'
  readonly reason: string
}

export type LoadOptions = CallOptions & {
  /** Instead of the repository's config.pbtxt: an object, or its JSON text. */
  readonly config?: object | string
  /** Instead of the repository's files, by path inside the model: `1/model.onnx`. Needs `config`. */
  readonly files?: Readonly<Record<string, Uint8Array>>
}

export type UnloadOptions = CallOptions & { readonly unloadDependents?: boolean }

/** Under Triton's names: trace_level, trace_rate, trace_count, log_frequency, … */
export type TraceSettings = Readonly<Record<string, string | readonly string[]>>
/** Null clears a setting of the model, or one made at run time. */
export type TraceSettingsUpdate = Readonly<Record<string, string | readonly string[] | null>>

/** Under Triton's names: log_info, log_verbose_level, log_format, … */
export type LogSettings = Readonly<Record<string, string | number | boolean>>

export type SystemSharedMemoryRegion = {
  readonly name: string
  readonly key: string
  readonly offset: number
  readonly byteSize: number
}

export type CudaSharedMemoryRegion = { readonly name: string; readonly deviceId: number; readonly byteSize: number }

export interface InferenceClient {
  /** False too when the server cannot be reached; so are the next two. */
  isLive(options?: CallOptions): Promise<boolean>
  isReady(options?: CallOptions): Promise<boolean>
  isModelReady(model: string, options?: ModelOptions): Promise<boolean>

  serverMetadata(options?: CallOptions): Promise<ServerMetadata>
  modelMetadata(model: string, options?: ModelOptions): Promise<ModelMetadata>
  modelConfig(model: string, options?: ModelOptions): Promise<ModelConfig>
  /** Of one model, or of all when none is named. */
  statistics(model?: string, options?: ModelOptions): Promise<readonly ModelStatistics[]>

  infer(model: string, inputs: Inputs, options?: InferOptions): Promise<InferResult>
  /** Requests that belong together: the first one starts the sequence, `end` ends it, one at a time in between. */
  sequence(model: string, options?: SequenceOptions): ClientSequence

  repositoryIndex(options?: CallOptions & { readonly ready?: boolean }): Promise<readonly IndexEntry[]>
  loadModel(model: string, options?: LoadOptions): Promise<void>
  unloadModel(model: string, options?: UnloadOptions): Promise<void>

  /** Of one model, or the server's when none is named. */
  traceSettings(model?: string, options?: CallOptions): Promise<TraceSettings>
  updateTraceSettings(settings: TraceSettingsUpdate, model?: string, options?: CallOptions): Promise<TraceSettings>
  logSettings(options?: CallOptions): Promise<LogSettings>
  updateLogSettings(settings: LogSettings, options?: CallOptions): Promise<LogSettings>

  /** All regions, or the one that is named. */
  systemSharedMemory(name?: string, options?: CallOptions): Promise<readonly SystemSharedMemoryRegion[]>
  /** `key` is the name of the object in /dev/shm, with its slash: `/input_region`. */
  registerSystemSharedMemory(
    region: Omit<SystemSharedMemoryRegion, 'offset'> & { readonly offset?: number },
    options?: CallOptions,
  ): Promise<void>
  /** All regions when none is named. */
  unregisterSystemSharedMemory(name?: string, options?: CallOptions): Promise<void>
  cudaSharedMemory(name?: string, options?: CallOptions): Promise<readonly CudaSharedMemoryRegion[]>
  /** `rawHandle`: the 64 bytes of a cudaIpcMemHandle_t. */
  registerCudaSharedMemory(
    region: CudaSharedMemoryRegion & { readonly rawHandle: Uint8Array },
    options?: CallOptions,
  ): Promise<void>
  unregisterCudaSharedMemory(name?: string, options?: CallOptions): Promise<void>

  /** Gives connections back. Twice is fine. */
  close(): Promise<void>
}
