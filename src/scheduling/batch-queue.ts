// Requests that wait for a batch, by priority, then by arrival. Requests that DELAY put back are last of their level.

import { specimens } from '../base/specimens.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { Expiring } from './deadlines.ts'
import { Arrivals, FairLine, type Queued } from './fair-line.ts'
import { LinkedList } from './linked-list.ts'
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
export class WaitingRequest implements Waiting, Expiring, Queued<WaitingRequest> {
  readonly request: InferenceRequest
  readonly rows: number
  order = 0
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
  readonly onTime: FairLine<WaitingRequest>
  readonly delayed = new LinkedList<WaitingRequest>()

  constructor(number: bigint, policy: QueuePolicy | null, arrivals: Arrivals) {
    this.number = number
    this.policy = policy
    this.onTime = new FairLine(arrivals)
  }

  get size(): number {
    return this.onTime.size + this.delayed.size
  }
}

/** The line that a request would join, and how many requests may be where that line counts. */
type Joined = { line: FairLine<WaitingRequest>; size: number; bound: number }

export class BatchQueue implements WaitingLine<WaitingRequest> {
  readonly arrivals = new Arrivals()
  readonly #settings: BatchQueueSettings
  /** Stands for the line of a level that is not there. */
  readonly #noLine = new FairLine<WaitingRequest>(this.arrivals)
  /** One object for all calls of `joinedBy`. */
  readonly #joined: Joined = { line: this.#noLine, size: 0, bound: 0 }
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

  /** The line that `request` would join; right until the next call. HOT: once per request. */
  joinedBy(request: InferenceRequest): Readonly<Joined> {
    const number = this.#levelNumber(request)
    const bound = this.#policyOf(number)?.maxQueueSize ?? Infinity
    const joined = this.#joined
    joined.line = this.#noLine
    joined.size = bound === Infinity ? this.#size : 0
    joined.bound = bound === Infinity ? this.#settings.defaultMaxQueueSize : bound
    const level = this.#levels[this.#placeOf(number)]
    if (level?.number !== number) return joined
    joined.line = level.onTime
    if (bound !== Infinity) joined.size = level.size
    return joined
  }

  /** Whether the next request of this tenant finds the queue full, whatever it says. */
  isFullFor(tenant: string): boolean {
    const level = this.#levels[0]
    if (level === undefined || this.#settings.priorityLevels > 1n) return false
    const own = level.policy?.maxQueueSize ?? Infinity
    return (
      level.size >= (own === Infinity ? this.#settings.defaultMaxQueueSize : own) &&
      level.delayed.size === 0 &&
      level.onTime.isAllOf(tenant)
    )
  }

  /** Whether requests of several tenants wait, of the priority that runs next. */
  get hasRivals(): boolean {
    return this.#levels[0]?.onTime.hasRivals ?? false
  }

  push(request: InferenceRequest, nowNs: number): WaitingRequest {
    const level = this.#level(this.#levelNumber(request))
    const timeoutNs = effectiveTimeoutNs(level.policy, request)
    const waiting = new WaitingRequest(request, level, nowNs, timeoutNs === 0 ? Infinity : nowNs + timeoutNs)
    level.onTime.push(waiting)
    this.#size++
    this.#rows += waiting.rows
    return waiting
  }

  /** False when the request has left the queue already. */
  remove(waiting: WaitingRequest): boolean {
    const { level } = waiting
    if (!level.onTime.remove(waiting) && !level.delayed.remove(waiting)) return false
    this.#forget(waiting)
    return true
  }

  /** Takes a waiting request out because it runs. */
  take(waiting: WaitingRequest): void {
    const { level } = waiting
    if (!level.delayed.remove(waiting)) level.onTime.take(waiting)
    this.#forget(waiting)
  }

  #forget({ level, rows }: WaitingRequest): void {
    this.#size--
    this.#rows -= rows
    if (level.size === 0) this.#levels.splice(this.#placeOf(level.number), 1)
  }

  first(): WaitingRequest | null {
    const level = this.#levels[0]
    return level === undefined ? null : (level.onTime.first() ?? level.delayed.first)
  }

  /** `waiting` comes from the last call of `first` or `after`. */
  after(waiting: WaitingRequest): WaitingRequest | null {
    const { level } = waiting
    const isDelayed = waiting.list === level.delayed
    const next = isDelayed ? waiting.next : (level.onTime.after(waiting) ?? level.delayed.first)
    if (next !== null) return next
    const lower = this.#levels[this.#placeOf(level.number) + 1]
    return lower === undefined ? null : (lower.onTime.first() ?? lower.delayed.first)
  }

  /** Of the lowest priority that has one: the request of this overload that would run last. */
  stalest(): WaitingRequest | null {
    for (let i = this.#levels.length - 1; i >= 0; i--) {
      const stalest = (this.#levels[i] as Level).onTime.stalest()
      if (stalest !== null) return stalest
    }
    return null
  }

  /** Of the lowest priority that has one: the request that waits longest since before this overload. */
  oldestBacklog(): WaitingRequest | null {
    for (let i = this.#levels.length - 1; i >= 0; i--) {
      const oldest = (this.#levels[i] as Level).onTime.oldestBacklog()
      if (oldest !== null) return oldest
    }
    return null
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
  #levelNumber({ priority, caller }: InferenceRequest): bigint {
    const { priorityLevels, defaultPriorityLevel } = this.#settings
    if (caller.isBackground && priorityLevels > 0n) return priorityLevels
    return priority < 1n || priority > priorityLevels ? defaultPriorityLevel : priority
  }

  #policyOf(number: bigint): QueuePolicy | null {
    return this.#settings.policyByLevel.get(number) ?? this.#settings.defaultPolicy
  }

  #level(number: bigint): Level {
    const at = this.#placeOf(number)
    const known = this.#levels[at]
    if (known?.number === number) return known
    const level = new Level(number, this.#policyOf(number), this.arrivals)
    this.#levels.splice(at, 0, level)
    return level
  }

  /** Where the level is, or would be: clients choose among as many levels as the configuration has. */
  #placeOf(number: bigint): number {
    const levels = this.#levels
    let [low, high] = [0, levels.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((levels[middle] as Level).number < number) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** 0: no timeout. A request may shorten the model's timeout where the policy allows that, and never lengthen it. */
function effectiveTimeoutNs(policy: QueuePolicy | null, request: InferenceRequest): number {
  if (request.timeoutUs === 0n) return policy?.defaultTimeoutNs ?? 0
  const ownNs = Number(request.timeoutUs) * 1000
  if (policy === null) return ownNs
  return policy.allowsTimeoutOverride && ownNs < policy.defaultTimeoutNs ? ownNs : policy.defaultTimeoutNs
}

specimens.add(() => {
  const level = new Level(0n, null, new Arrivals())
  return new WaitingRequest({ batchSize: 1 } as InferenceRequest, level, 0.5, Infinity)
})
