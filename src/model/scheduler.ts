import type { Instance } from './backend.ts'
import type { InferenceRequest } from './inference-request.ts'

/** The sequences that a Scheduler has under way. */
export interface Sequences {
  /** Sequences that have begun and not ended. */
  readonly sequenceCount: number
  /** Whether a further request of the sequence belongs here. */
  holdsSequence(id: bigint | string): boolean
  /** Resolves when no sequence is left: each ends with its last request, or after its idle time. */
  sequencesEnded(): Promise<void>
}

/** Decides which requests form the next Batch, and when. One per loaded model version. */
export interface Scheduler {
  /** Takes the request over: from here on it ends, whatever happens. Never throws. */
  enqueue(request: InferenceRequest): void
  /** For a request that is answered without `enqueue`: where the model preserves order, its answer waits for its turn. */
  joinOrder?(request: InferenceRequest): void
  /** Requests waiting, not those running. */
  readonly pendingCount: number
  /** Null or absent: requests do not come in sequences. */
  readonly sequences?: Sequences | null
  /** Whether answers are looked up in the response cache. */
  readonly hasCache?: boolean
  /** An Instance became ready or stopped being ready. */
  instancesChanged(): void
  /**
   * The Instances to use from now on. An Instance that is no longer among them ends the batches and sequences that it has
   * begun; the result resolves when none of these Instances has any left. Absent: the Scheduler has no Instances.
   */
  setInstances?(instances: readonly Instance[]): Promise<void>
  /** Refuses new requests from now on; resolves when the last admitted one has ended. */
  drain(): Promise<void>
  /** Fails every request that still waits. For the end of the time that draining was given. */
  close(): void
}
