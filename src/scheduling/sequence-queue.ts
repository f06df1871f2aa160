import { RingQueue } from '../base/ring-queue.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Expiring } from './deadlines.ts'
import type { SequenceLane } from './sequence-lane.ts'
import type { SequenceStateValues } from './sequence-states.ts'

export type QueuedRequest = {
  readonly request: InferenceRequest
  /** Counts all requests to the model, in the order in which they came. */
  readonly order: number
  readonly queuedNs: number
}

/** The requests of one sequence that wait, and where it stands. Its requests run one after the other. */
export class SequenceQueue implements Expiring {
  readonly id: bigint | string
  readonly requests = new RingQueue<QueuedRequest>()
  /** Null in the backlog. A sequence keeps its lane and slot until it ends. */
  lane: SequenceLane | null = null
  slot = -1
  running: QueuedRequest | null = null
  /** Of `running`: its execution and its last answer are both awaited before the next one may run. */
  awaitedCount = 0
  /** Its one request is the whole sequence, however often it runs. */
  readonly isOneRequest: boolean
  /** The newest request ends the sequence, so another one must start it anew. */
  isEndQueued = false
  /** Cancelled or idle for too long: nothing more of it runs. */
  isOver = false
  lastActiveNs = 0
  /** In the backlog: when the first of its requests runs out of time. */
  deadlineNs = Infinity
  deadlinePlace = -1
  deadlineOrder = 0
  states: SequenceStateValues | null = null

  constructor(id: bigint | string, isOneRequest: boolean) {
    this.id = id
    this.isOneRequest = isOneRequest
  }

  get canRun(): boolean {
    return this.running === null && this.requests.size > 0
  }
}
