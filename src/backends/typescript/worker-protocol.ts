// The messages between the server and a Worker that runs TypeScript. All of them can be cloned. The bytes of tensors
// lie in buffers beside the messages, and these buffers are transferred between threads.

import type { LogFields, LogLevel } from '../../base/log.ts'
import type { ErrorCode } from '../../base/server-error.ts'
import type { CustomMetricKind } from '../../model/custom-metrics.ts'
import type { ParameterValue } from '../../model/parameters.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { TraceOrigin } from '../../model/trace-stamp.ts'
import type { DataType } from '../../tensor/data-type.ts'
import type { Shape } from '../../tensor/shape.ts'
import type { ModelDescription } from './model-description.ts'

/** The code that the Worker runs, and for which model. */
export type WorkerTask = {
  /** `describe`: the Worker sends the model's description, then ends. */
  readonly purpose: 'serve' | 'describe'
  /** Names one load of a version: the same for all its instances. */
  readonly load: string
  readonly program: ProgramSource
  readonly place: ModelPlace
  readonly config: ModelConfig
  readonly outputs: readonly ExpectedOutput[]
  readonly isDecoupled: boolean
  readonly isBatching: boolean
}

export type ProgramSource =
  | { readonly kind: 'model'; readonly path: string }
  | { readonly kind: 'backend'; readonly path: string; readonly name: string; readonly settings: BackendSettings }

/** `--backend-config=<name>,<key>=<value>` */
export type BackendSettings = ReadonlyMap<string, string>

export type ModelPlace = {
  readonly modelName: string
  readonly modelVersion: string
  readonly modelInstanceName: string
  readonly modelInstanceKind: 'CPU' | 'GPU' | 'MODEL'
  readonly modelInstanceDeviceId: number
  readonly modelRepository: string
  readonly modelDirectory: string
  readonly versionDirectory: string
}

export type ExpectedOutput = {
  readonly name: string
  readonly dataType: DataType
  /** The shape that the model must return: the reshape, if the configuration has one; without the batch dimension. */
  readonly dims: Shape
}

export type TensorMessage = {
  readonly name: string
  readonly dataType: DataType
  readonly shape: Shape
  /** The index of the buffer that holds the bytes, and the place in the buffer. */
  readonly buffer: number
  readonly offset: number
  readonly length: number
}

export type RequestMessage = {
  /** Identifies the request between server and Worker; the client's id may not be unique. */
  readonly key: number
  readonly id: string
  readonly batchSize: number
  readonly inputs: readonly TensorMessage[]
  /** Null: all details have their defaults, as for most requests. Null costs less to send. */
  readonly details: RequestDetails | null
}

export type RequestDetails = {
  readonly requestedOutputs: readonly string[]
  readonly parameters: ReadonlyMap<string, ParameterValue>
  readonly correlationId: bigint | string
  readonly isSequenceStart: boolean
  readonly isSequenceEnd: boolean
  readonly priority: bigint
  readonly timeoutUs: bigint
  readonly isCancelled: boolean
  /** The trace of the request; null: the request is not traced, or its trace cannot be joined. */
  readonly traceContext: TraceOrigin | null
}

export type ToWorker =
  | { readonly kind: 'execute'; readonly requests: readonly RequestMessage[]; readonly buffers: readonly ArrayBuffer[] }
  | { readonly kind: 'cancel'; readonly key: number }
  /** The server has passed on so many responses, with so many bytes, of a decoupled model. */
  | { readonly kind: 'taken'; readonly key: number; readonly count: number; readonly bytes: number }
  /** The Worker answers with `pong`. */
  | { readonly kind: 'ping' }
  | { readonly kind: 'finish' }

export type ResponseMessage = {
  readonly kind: 'response'
  readonly key: number
  readonly outputs: readonly TensorMessage[]
  readonly parameters: ReadonlyMap<string, ParameterValue> | null
  readonly error: {
    readonly code: ErrorCode
    readonly message: string
    /** The model answered this request with it; else `execute` failed, and with it every request of the batch. */
    readonly isOwn: boolean
  } | null
  readonly isFinal: boolean
  readonly isFlagOnly: boolean
}

/** In place of a final response: the model wants the request again. */
export type RescheduleMessage = {
  readonly kind: 'reschedule'
  readonly key: number
  readonly outputs: readonly TensorMessage[]
}

/** A custom metric is created or changed. The Worker numbers its series. */
export type MetricMessage =
  | {
      readonly kind: 'metric'
      readonly metric: number
      readonly name: string
      readonly description: string
      readonly type: CustomMetricKind
      readonly labels: ReadonlyMap<string, string>
      readonly buckets: readonly number[] | null
    }
  | {
      readonly kind: 'measured'
      readonly metric: number
      readonly operation: 'increment' | 'set' | 'observe'
      readonly value: number
    }

export type WorkerMessage =
  | MetricMessage
  | ResponseMessage
  | RescheduleMessage
  | { readonly kind: 'executed' }
  | { readonly kind: 'pong' }
  | { readonly kind: 'started' }
  | { readonly kind: 'described'; readonly description: ModelDescription | null }
  | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: 'readiness'; readonly isReady: boolean }
  | { readonly kind: 'log'; readonly level: LogLevel; readonly message: string; readonly fields: LogFields }

export type FromWorker = { readonly messages: readonly WorkerMessage[]; readonly buffers: readonly ArrayBuffer[] }

/** To a Worker that runs all instances of a custom backend. Each instance is a channel of its own. */
export type ToSharedWorker =
  | { readonly kind: 'open'; readonly channel: number; readonly task: WorkerTask }
  | { readonly kind: 'tell'; readonly channel: number; readonly message: ToWorker }
  /** All instances have left. The Worker finalizes the backend and ends. */
  | { readonly kind: 'end' }

/** Channel 0 is that of the backend itself. `envelope` null: the instance has left. */
export type FromSharedWorker = { readonly channel: number; readonly envelope: FromWorker | null }
