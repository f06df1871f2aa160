// The seam between the engine and whatever executes models.

import type { Log } from '../base/log.ts'
import type { Batch, PreparedBatch } from './batch.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { ModelSignature } from '../config/model-signature.ts'

/** Where a model's files lie on this machine, whatever store they came from. */
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
  /** Counts all instances of the model version, from 0. */
  readonly index: number
  readonly onReadinessChange: () => void
}

/** One kind of executor: `onnxruntime`, `python`, `typescript`… Made once, when the first model needs it. */
export interface Backend {
  readonly name: string
  /** Fills in what config.pbtxt left out and the model file knows. Works on and returns `draft`; throws ServerError. */
  complete(draft: ModelConfig, files: ModelFiles): Promise<ModelConfig>
  /** The names of the classes of each output, where the model's files tell them. A label file takes precedence. */
  classNames?(config: ModelConfig, files: ModelFiles): ReadonlyMap<string, readonly string[]>
  load(source: ModelVersionSource): Promise<LoadedModel>
  /** After the last model is gone, at process exit. */
  close(): Promise<void>
}

/** One version of one model in memory: what its Instances share (weights, sessions). */
export interface LoadedModel {
  createInstance(spec: InstanceSpec): Promise<Instance>
  /** After every Instance is closed. */
  close(): Promise<void>
}

export type Prepare = (requests: readonly InferenceRequest[]) => PreparedBatch | null

/** One loaded copy on one device. It executes one Batch at a time and never throws from `execute`. */
export interface Instance {
  readonly name: string
  /** False while its Worker is being replaced. The spec's `onReadinessChange` is called whenever this changes. */
  readonly isReady: boolean
  /**
   * Whether the Instance may execute now; absent: it always may. An Instance that shares a resource with others and gets
   * a no stands in line: the scheduler is told of the next chance with `instancesChanged`, until the Instance executes
   * or `withdraw` says that it has no more work.
   */
  claim?(): boolean
  withdraw?(): void
  /** How often the Worker of the Instance was started again; absent: the Instance has no Worker. */
  readonly restartCount?: number
  /**
   * How many further batches it takes while one executes, so that its Worker finds the next one at hand; absent or 0:
   * none. They execute in the order in which they came. It may change at any time, and is asked before each batch.
   */
  readonly prefetchDepth?: number
  /**
   * Prepares a Batch of these requests while every Instance of the model is busy. The result comes back as `prepared` of
   * a Batch of exactly these requests, at any Instance of the model, or is dropped. Null: there is nothing to prepare.
   * Absent: to prepare would not help at the moment.
   */
  readonly prepare?: Prepare | undefined
  /**
   * Answers every request of the batch (response, error or, for a decoupled model, later) and calls
   * `batch.executed()`, perhaps before it returns. Stamps computeStartNs, computeInputEndNs, computeOutputStartNs and
   * computeEndNs on each request before answering it.
   */
  execute(batch: Batch): void
  /** Why the Worker last ended; '' when it never did. Absent: the Instance has no Worker. */
  readonly lastError?: string
  /**
   * Sends a message through the message loop of the Worker. False: the Worker has answered neither this message nor
   * anything else since the last call. Never waits for the Worker. Absent: the Instance runs in the server's own thread.
   */
  pulse?(): Promise<boolean>
  /** The memory that this Instance alone uses, such as that of its process; null or absent when it is not known. */
  memoryBytes?(): Promise<number | null>
  close(): Promise<void>
}
