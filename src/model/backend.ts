// The interfaces between the engine and the backends, which execute models.

import type { Log } from '../base/log.ts'
import type { LanguageFacts } from '../llm/language-facts.ts'
import type { Batch, PreparedBatch } from './batch.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { ModelSignature } from '../config/model-signature.ts'

/** The paths of a model's files on this machine. Files of a remote store have been copied here. */
export type ModelFiles = {
  readonly repositoryPath: string
  /** `<repository>/<model>` */
  readonly modelDirectory: string
  /** `<repository>/<model>/<version>`; may be missing for backends that need no files. */
  readonly versionDirectory: string
  readonly version: string
}

/** What a Backend gets to load one version of a model. */
export type ModelVersionSource = {
  readonly name: string
  readonly version: string
  /** Complete, normalised and valid. */
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly files: ModelFiles
  readonly log: Log
}

export type InstanceSpec = {
  /** `<group>_<n>`, as in Triton's messages. */
  readonly name: string
  readonly kind: 'KIND_CPU' | 'KIND_GPU' | 'KIND_MODEL'
  readonly deviceId: number
  /** On which the Instance runs (`--host-policy`); absent or empty: all. */
  readonly cores?: readonly number[]
  /** Counts all instances of the model version, from 0. */
  readonly index: number
  readonly onReadinessChange: () => void
}

/** One kind of executor: `onnxruntime`, `python`, `typescript`… Created once, when the first model needs it. */
export interface Backend {
  readonly name: string
  /** Fills gaps of config.pbtxt from the model file. Changes and returns `draft`; throws ServerError. */
  complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig>
  /** Whether an instance group that names no kind is placed on GPUs where there are some. Absent: as the backend is known for. */
  usesGpus?(): Promise<boolean>
  /** The class names of each output, where the model's files have them. A label file takes precedence. */
  classNames?(config: ModelConfig, files: ModelFiles): ReadonlyMap<string, readonly string[]>
  load(source: ModelVersionSource): Promise<LoadedModel>
  /** Called at process exit, after the last model is closed. */
  close(): Promise<void>
}

/** One version of one model in memory: the things that its Instances share (weights, sessions). */
export interface LoadedModel {
  /** Of a language model. Absent or null: the model is none. */
  readonly languageFacts?: LanguageFacts | null
  /** What its load took of the memory of each GPU, in bytes; absent: nobody has measured. */
  readonly deviceBytes?: ReadonlyMap<number, number>
  createInstance(spec: InstanceSpec): Promise<Instance>
  /** Called after every Instance is closed. */
  close(): Promise<void>
}

export type Prepare = (requests: readonly InferenceRequest[]) => PreparedBatch | null

/** One loaded copy on one device. It executes one Batch at a time and never throws from `execute`. */
export interface Instance {
  readonly name: string
  /** False while the Worker is being replaced. The Instance calls `onReadinessChange` of its spec at every change. */
  readonly isReady: boolean
  /** What it runs on is gone for good: each request fails at once, and the model is not ready. Absent: it is not. */
  readonly isLost?: boolean
  /**
   * Whether the Instance may execute now; absent: always. An Instance that shares a resource with others and may not
   * execute waits in line: `instancesChanged` tells the scheduler of each next chance, until the Instance executes or
   * the scheduler calls `withdraw` because there is no more work.
   */
  claim?(): boolean
  withdraw?(): void
  /** The GPU in whose memory inputs and outputs may lie (`deviceAddressOf`); absent: in memory of the host only. */
  readonly deviceId?: number | undefined
  /** Only outputs may lie there: the Instance wants its inputs in memory of the host. Absent: inputs may, too. */
  readonly hasHostInputs?: boolean
  /** When the Instance has answered a request without an error, it does not look at the inputs any more. Absent: it may. */
  readonly isDoneOnAnswer?: boolean
  /** How often the Worker of the Instance was started again; absent: the Instance has no Worker. */
  readonly restartCount?: number
  /**
   * How many further batches the Instance takes while one executes, so that its Worker does not wait for the next one.
   * Absent or 0: none. Batches execute in the order in which they came. The scheduler asks before each batch.
   */
  readonly prefetchDepth?: number
  /**
   * Of an Instance that computes several batches at the same time: how little the request suits it. Of several Instances the one with
   * the least gets the request. Absent: an Instance computes one batch at a time, and all suit.
   */
  readonly burden?: ((request: InferenceRequest) => number) | undefined
  /**
   * Prepares a Batch of these requests while every Instance of the model is busy. The scheduler passes the result on as
   * `prepared` of a Batch of exactly these requests, to any Instance of the model, or drops it. Null: there is nothing
   * to prepare. Absent: to prepare would not help at the moment.
   */
  readonly prepare?: Prepare | undefined
  /**
   * Answers every request of the batch with responses or an error, and calls `batch.executed()`, perhaps before it
   * returns. A decoupled model may answer later than that. Stamps computeStartNs, computeInputEndNs,
   * computeOutputStartNs and computeEndNs on each request before it answers the request.
   */
  execute(batch: Batch): void
  /** Why the Worker last ended, or the Instance is lost; '' when neither happened. Absent: the Instance has no Worker. */
  readonly lastError?: string
  /**
   * Sends a message through the message loop of the Worker. False: the Worker has answered neither this message nor
   * anything else since the last call. Never waits for the Worker. Absent: the Instance runs in the server's own thread.
   */
  pulse?(): Promise<boolean>
  /** The memory that this Instance alone uses, such as the memory of its process; null or absent: not known. */
  memoryBytes?(): Promise<number | null>
  close(): Promise<void>
}
