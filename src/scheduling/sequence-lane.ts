import type { Cancel } from '../base/clock.ts'
import { RingQueue } from '../base/ring-queue.ts'
import type { Instance } from '../model/backend.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Expiring } from './deadlines.ts'
import type { SequenceStateValues } from './sequence-states.ts'

export type QueuedRequest = {
  readonly request: InferenceRequest
  /** The number of the request, among all requests to the model in their order of arrival. */
  readonly order: number
  readonly queuedNs: number
}

/** The waiting requests of one sequence, and its state. The requests of a sequence run one after the other. */
export class SequenceQueue implements Expiring {
  readonly id: bigint | string
  readonly requests = new RingQueue<QueuedRequest>()
  /** Null while the sequence is in the backlog. A sequence keeps its lane and slot until it ends. */
  lane: SequenceLane | null = null
  slot = -1
  running: QueuedRequest | null = null
  /** How many ends of `running` are awaited: of its execution and of its answers. At 0 the next request may run. */
  awaitedCount = 0
  /** The answer to its newest request ends it, as in an iterative model, where one request may run several times. */
  readonly endsWithAnswer: boolean
  /** The newest request ends the sequence, so a further request must start it again. */
  isEndQueued = false
  /** It is in the backlog, behind sequences whose first request came later. */
  hasRejoined = false
  /** The sequence was cancelled or idle for too long: no more of its requests run. */
  isOver = false
  lastActiveNs = 0
  /** The first timeout among its requests, while the sequence is in the backlog. */
  deadlineNs = Infinity
  deadlinePlace = -1
  deadlineOrder = 0
  states: SequenceStateValues | null = null

  constructor(id: bigint | string, endsWithAnswer: boolean) {
    this.id = id
    this.endsWithAnswer = endsWithAnswer
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
  /** Set when the Instance is taken away: no sequence begins on this lane, and `onLeft` is called after the last. */
  onLeft: (() => void) | null = null

  constructor(instance: Instance, slotCount: number) {
    this.instance = instance
    this.slots = Array.from<SequenceQueue | null>({ length: slotCount }).fill(null)
  }

  /** The sequences with a request that may run now, in slot order. */
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
