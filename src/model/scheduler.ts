import type { Instance } from './backend.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { QueueDoor, QueueReport } from './queue-report.ts'

/** The sequences that a Scheduler has under way. */
export interface Sequences {
  /** Sequences that have begun and not ended. */
  readonly sequenceCount: number
  /** Whether this Scheduler has the sequence and must get its further requests. */
  holdsSequence(id: bigint | string): boolean
  /** Resolves when no sequence is left. A sequence ends with its last request, or after its idle time. */
  sequencesEnded(): Promise<void>
}

/** Decides which requests form the next Batch, and when. One per loaded model version. */
export interface Scheduler {
  /** Takes the request over and sees to it that the request ends. Never throws. */
  enqueue(request: InferenceRequest): void
  /** For a request that is answered without `enqueue`: where the model preserves order, its answer waits for its turn. */
  joinOrder?(request: InferenceRequest): void
  /** How many requests wait; requests that execute are not counted. */
  readonly pendingCount: number
  /** Null or absent: requests do not come in sequences. */
  readonly sequences?: Sequences | null
  /** What the queue says about itself. Null or absent: there is no queue that would know. */
  readonly queue?: QueueReport | null
  /** Null or absent: every request must be read before anything can be said about it. */
  readonly door?: QueueDoor | null
  /** Whether answers are looked up in the response cache. */
  readonly hasCache?: boolean
  /** An Instance became ready or stopped being ready. */
  instancesChanged(): void
  /**
   * The Instances to use from now on. An Instance that is left out finishes the batches and sequences that it has
   * begun. The promise resolves when all of these are finished. Absent: the Scheduler has no Instances.
   */
  setInstances?(instances: readonly Instance[]): Promise<void>
  /** Refuses new requests from now on; resolves when the last admitted request has ended. */
  drain(): Promise<void>
  /** Fails every request that still waits. Called when the time for `drain` is over. */
  close(): void
}
