import type { Cancel } from '../base/clock.ts'
import { RingQueue } from '../base/ring-queue.ts'
import type { Instance } from '../model/backend.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Expiring } from './deadlines.ts'
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

/** One Instance and the sequences that are bound to it. */
export class SequenceLane {
  readonly instance: Instance
  readonly slots: (SequenceQueue | null)[]
  isExecuting = false
  isDispatching = false
  cancelWake: Cancel | null = null
  /** Set on a lane whose Instance was taken away: no sequence begins on it, and this is called after the last one. */
  onLeft: (() => void) | null = null

  constructor(instance: Instance, slotCount: number) {
    this.instance = instance
    this.slots = Array.from<SequenceQueue | null>({ length: slotCount }).fill(null)
  }

  /** Those with a request that may run now, in slot order. */
  ready(): SequenceQueue[] {
    const ready: SequenceQueue[] = []
    for (const sequence of this.slots) if (sequence !== null && sequence.canRun) ready.push(sequence)
    return ready
  }

  get isEmpty(): boolean {
    return !this.isExecuting && this.slots.every((sequence) => sequence === null)
  }

  forgetWake(): void {
    this.cancelWake?.()
    this.cancelWake = null
  }
}
