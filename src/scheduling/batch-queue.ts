// Requests that wait for a batch, by priority, then by arrival. Requests that DELAY put back are last of their level.

import type { InferenceRequest } from '../model/inference-request.ts'
import type { Expiring } from './deadlines.ts'
import { LinkedList, type Linked } from './linked-list.ts'
import type { Waiting, WaitingLine } from './plan-batch.ts'

export type QueuePolicy = {
  readonly timeoutAction: 'REJECT' | 'DELAY'
  /** 0: none. */
  readonly defaultTimeoutNs: number
  readonly allowsTimeoutOverride: boolean
  /** How many requests of one priority level may wait; Infinity when the configuration sets no limit. */
  readonly maxQueueSize: number
}

export type BatchQueueSettings = {
  /** 0 and 1 are the same: no priorities. */
  readonly priorityLevels: bigint
  readonly defaultPriorityLevel: bigint
  /** Null: the configuration has no queue policy, and the timeout of the request itself applies. */
  readonly defaultPolicy: QueuePolicy | null
  readonly policyByLevel: ReadonlyMap<bigint, QueuePolicy>
  /** How many requests may wait in all levels together that have no limit of their own. */
  readonly defaultMaxQueueSize: number
}

/** A request in the queue. A client may cancel at any time, so a request leaves from any place in constant time. */
export class WaitingRequest implements Waiting, Expiring, Linked<WaitingRequest> {
  readonly request: InferenceRequest
  readonly rows: number
  readonly enqueuedNs: number
  readonly level: Level
  /** Infinity: the request may wait for ever. */
  deadlineNs: number
  deadlinePlace = -1
  deadlineOrder = 0
  list: LinkedList<WaitingRequest> | null = null
  previous: WaitingRequest | null = null
  next: WaitingRequest | null = null

  constructor(request: InferenceRequest, level: Level, enqueuedNs: number, deadlineNs: number) {
    this.request = request
    this.rows = Math.max(1, request.batchSize)
    this.level = level
    this.enqueuedNs = enqueuedNs
    this.deadlineNs = deadlineNs
  }
}

class Level {
  readonly number: bigint
  readonly policy: QueuePolicy | null
  readonly onTime = new LinkedList<WaitingRequest>()
  readonly delayed = new LinkedList<WaitingRequest>()
  size = 0

  constructor(number: bigint, policy: QueuePolicy | null) {
    this.number = number
    this.policy = policy
  }
}

export class BatchQueue implements WaitingLine<WaitingRequest> {
  readonly #settings: BatchQueueSettings
  /** Highest priority first. Only levels with requests are here: a configuration may have millions of them. */
  readonly #levels: Level[] = []
  #size = 0
  #rows = 0

  constructor(settings: BatchQueueSettings) {
    this.#settings = settings
  }

  get size(): number {
    return this.#size
  }

  get rows(): number {
    return this.#rows
  }

  isFullFor(request: InferenceRequest): boolean {
    const number = this.#levelNumber(request)
    const bound = this.#policyOf(number)?.maxQueueSize ?? Infinity
    if (bound === Infinity) return this.#size >= this.#settings.defaultMaxQueueSize
    return (this.#levels.find((level) => level.number === number)?.size ?? 0) >= bound
  }

  push(request: InferenceRequest, nowNs: number): WaitingRequest {
    const level = this.#level(this.#levelNumber(request))
    const timeoutNs = effectiveTimeoutNs(level.policy, request)
    const waiting = new WaitingRequest(request, level, nowNs, timeoutNs === 0 ? Infinity : nowNs + timeoutNs)
    level.onTime.push(waiting)
    level.size++
    this.#size++
    this.#rows += waiting.rows
    return waiting
  }

  /** False when the request has left the queue already. */
  remove(waiting: WaitingRequest): boolean {
    if (waiting.list === null) return false
    waiting.list.remove(waiting)
    const { level } = waiting
    level.size--
    this.#size--
    this.#rows -= waiting.rows
    if (level.size === 0) this.#levels.splice(this.#levels.indexOf(level), 1)
    return true
  }

  first(): WaitingRequest | null {
    const level = this.#levels[0]
    return level === undefined ? null : (level.onTime.first ?? level.delayed.first)
  }

  after(waiting: WaitingRequest): WaitingRequest | null {
    if (waiting.next !== null) return waiting.next
    const { level } = waiting
    if (waiting.list === level.onTime && level.delayed.first !== null) return level.delayed.first
    const lower = this.#levels[this.#levels.indexOf(level) + 1]
    return lower === undefined ? null : (lower.onTime.first ?? lower.delayed.first)
  }

  /** The deadline has passed. True: the request left and must be refused. False: it is last of its level now. */
  expire(waiting: WaitingRequest): boolean {
    const { level } = waiting
    if (level.policy?.timeoutAction !== 'DELAY') return this.remove(waiting)
    level.onTime.remove(waiting)
    waiting.deadlineNs = Infinity
    level.delayed.push(waiting)
    return false
  }

  /** A priority that is not set or does not exist becomes the default priority. */
  #levelNumber({ priority }: InferenceRequest): bigint {
    const { priorityLevels, defaultPriorityLevel } = this.#settings
    return priority < 1n || priority > priorityLevels ? defaultPriorityLevel : priority
  }

  #policyOf(number: bigint): QueuePolicy | null {
    return this.#settings.policyByLevel.get(number) ?? this.#settings.defaultPolicy
  }

  #level(number: bigint): Level {
    const levels = this.#levels
    let at = 0
    for (; at < levels.length; at++) {
      const level = levels[at] as Level
      if (level.number === number) return level
      if (level.number > number) break
    }
    const level = new Level(number, this.#policyOf(number))
    levels.splice(at, 0, level)
    return level
  }
}

/** 0: no timeout. A request may shorten the model's timeout where the policy allows that, and never lengthen it. */
function effectiveTimeoutNs(policy: QueuePolicy | null, request: InferenceRequest): number {
  if (request.timeoutUs === 0n) return policy?.defaultTimeoutNs ?? 0
  const ownNs = Number(request.timeoutUs) * 1000
  if (policy === null) return ownNs
  return policy.allowsTimeoutOverride && ownNs < policy.defaultTimeoutNs ? ownNs : policy.defaultTimeoutNs
}
