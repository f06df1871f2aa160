// The real schedulers in virtual time, before clients that send at a given rate and give up after a given time.

import type { Cancel, Clock } from '../../src/base/clock.ts'
import { makeCaller, type Caller } from '../../src/access/caller.ts'
import type { Batch } from '../../src/model/batch.ts'
import { InferenceRequest } from '../../src/model/inference-request.ts'
import { InferenceResponse } from '../../src/model/inference-response.ts'
import type { Scheduler } from '../../src/model/scheduler.ts'
import { DirectScheduler } from '../../src/scheduling/direct-scheduler.ts'
import { DynamicBatchScheduler } from '../../src/scheduling/dynamic-batch-scheduler.ts'
import { HeldInstance } from '../fakes/held-instance.ts'
import { Random } from './random.ts'

/** A Clock whose alarms are in a heap: a simulation of seconds has a hundred thousand of them. */
export class VirtualClock implements Clock {
  #nowNs = 1e9
  #order = 0
  readonly #heap: { readonly dueNs: number; readonly order: number; fire: (() => void) | null }[] = []

  nowNs(): number {
    return this.#nowNs
  }

  wallMs(): number {
    return this.#nowNs / 1e6
  }

  after(delayNs: number, fire: () => void): Cancel {
    const alarm = { dueNs: this.#nowNs + Math.max(0, delayNs), order: this.#order++, fire: fire as (() => void) | null }
    const heap = this.#heap
    heap.push(alarm)
    for (let at = heap.length - 1; at > 0;) {
      const up = (at - 1) >> 1
      if (!this.#isBefore(at, up)) break
      this.#swap(at, up)
      at = up
    }
    return () => void (alarm.fire = null)
  }

  afterExactly(delayNs: number, fire: () => void): Cancel {
    return this.after(delayNs, fire)
  }

  /** Fires what comes next; false when nothing is left. */
  step(): boolean {
    const heap = this.#heap
    if (heap.length === 0) return false
    this.#swap(0, heap.length - 1)
    const alarm = heap.pop()
    for (let at = 0; ;) {
      let least = at
      for (const down of [2 * at + 1, 2 * at + 2]) if (down < heap.length && this.#isBefore(down, least)) least = down
      if (least === at) break
      this.#swap(at, least)
      at = least
    }
    if (alarm === undefined || alarm.fire === null) return true
    this.#nowNs = Math.max(this.#nowNs, alarm.dueNs)
    alarm.fire()
    return true
  }

  #isBefore(a: number, b: number): boolean {
    const [one, other] = [this.#heap[a], this.#heap[b]]
    if (one === undefined || other === undefined) return false
    return one.dueNs < other.dueNs || (one.dueNs === other.dueNs && one.order < other.order)
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap
    const one = heap[a]
    heap[a] = heap[b] as (typeof heap)[number]
    heap[b] = one as (typeof heap)[number]
  }
}

export type Clients = {
  readonly tenant?: string
  readonly weight?: number
  /** Requests per second at this time, in seconds from the beginning; they come at random. */
  readonly rate: (seconds: number) => number
  /** After how many milliseconds an answer is worth nothing; Infinity: a patient client. */
  readonly patienceMs: (random: Random) => number
  /** False: the client forgets its request without a word to the server. */
  readonly disconnects?: boolean
  /** The `timeout` parameter of the requests. */
  readonly timeoutMs?: number
  /** The deadline of the calls. */
  readonly deadlineMs?: number
}

export type OverloadStory = {
  readonly seed?: number
  readonly seconds: number
  readonly clients: readonly Clients[]
  /** So many requests at the very beginning, from a patient client. */
  readonly burst?: number
  /** So many patient clients that send the next request when they have an answer. */
  readonly closedLoop?: number
  readonly instanceCount?: number
  /** Of an execution of so many requests. */
  readonly serviceMs: (random: Random, batchSize: number) => number
  readonly maxBatchSize?: number
  /** 0: no overload control, and the fixed bound of before. */
  readonly targetMs?: number
  readonly maxQueueSize?: number
  readonly keepsOrder?: boolean
}

export type Outcome = {
  readonly sent: number
  /** Answered in time. */
  readonly good: number
  readonly late: number
  readonly refused: number
  readonly gaveUp: number
  readonly goodMs: readonly number[]
  /** Good answers in each tenth of a second. */
  readonly goodByTenth: readonly number[]
  /** Good answers to the clients of each list entry; the burst and the closed loop are the last two entries. */
  readonly byClients: readonly { good: number; sent: number; ms: number[] }[]
  /** The order in which requests began, by number. */
  readonly startOrder: readonly number[]
  readonly waitingAtEnd: number
}

class TimedInstance extends HeldInstance {
  readonly #run: (batch: Batch) => void

  constructor(run: (batch: Batch) => void) {
    super('timed')
    this.#run = run
  }

  override execute(batch: Batch): void {
    this.#run(batch)
  }
}

const unlimited = { preferredBatchSizes: new Set<number>(), maxQueueDelayNs: 0, canJoin: null }

function schedulerOf(story: OverloadStory, clock: VirtualClock, instances: readonly TimedInstance[]): Scheduler {
  const { maxBatchSize = 0, targetMs = 0, maxQueueSize = targetMs === 0 ? 100 : 10_000, keepsOrder = false } = story
  const overload =
    targetMs === 0 ? null : { targetNs: targetMs * 1e6, batchDelayNs: 0, maxBatchSize: Math.max(1, maxBatchSize) }
  if (maxBatchSize === 0) return new DirectScheduler({ clock }, instances, { maxQueueSize, overload })
  return new DynamicBatchScheduler({ clock, afterThisTurn: (fire) => void clock.after(0, fire) }, instances, {
    limits: { ...unlimited, maxBatchSize, largestPreferredBatchSize: maxBatchSize },
    queue: {
      priorityLevels: 0n,
      defaultPriorityLevel: 0n,
      defaultPolicy: null,
      policyByLevel: new Map(),
      defaultMaxQueueSize: maxQueueSize,
    },
    preservesOrder: keepsOrder,
    overload,
  })
}

/** A caller of a tenant without limits. */
export function tenantCaller(tenant: string, weight: number): Caller {
  const free = {
    isLimited: false,
    admit: () => null,
    begin: () => null,
    end: () => undefined,
    answerHeaders: () => null,
  }
  return makeCaller('api-key', tenant, { tenant, account: { tenant, weight, ...free } })
}

const exponential = (random: Random, mean: number): number => -mean * Math.log((1 + random.int(1e9)) / 1e9)

export function simulate(story: OverloadStory): Outcome {
  const { seed = 26, seconds, clients, burst = 0, closedLoop = 0, instanceCount = 1, serviceMs } = story
  const clock = new VirtualClock()
  const random = new Random(seed, 0)
  const startNs = clock.nowNs()
  const endNs = startNs + seconds * 1e9
  const counts = { sent: 0, good: 0, late: 0, refused: 0, gaveUp: 0 }
  const goodMs: number[] = []
  const goodByTenth: number[] = []
  const startOrder: number[] = []
  const byClients = [...clients, null, null].map(() => ({ good: 0, sent: 0, ms: [] as number[] }))
  let open = 0
  const run = (batch: Batch): void => {
    for (const { id } of batch.requests) startOrder.push(Number(id))
    clock.after(serviceMs(random, batch.requests.length) * 1e6, () => {
      for (const request of batch.requests) request.respond(InferenceResponse.of([]))
      batch.executed()
    })
  }
  const instances = Array.from({ length: instanceCount }, () => new TimedInstance(run))
  const scheduler = schedulerOf(story, clock, instances)

  const send = (at: number, caller: Caller | undefined, one: Clients, then: (() => void) | null): void => {
    const sentNs = clock.nowNs()
    const patienceMs = one.patienceMs(random)
    const mine = byClients[at] as (typeof byClients)[number]
    const id = String(counts.sent++)
    mine.sent++
    open++
    let stop: Cancel | null = null
    const request = new InferenceRequest({
      modelName: 'm',
      id,
      inputs: [],
      timeoutUs: BigInt(Math.round((one.timeoutMs ?? 0) * 1000)),
      caller,
      sink: ({ error }) => {
        stop?.()
        open--
        const tookMs = (clock.nowNs() - sentNs) / 1e6
        if (error?.code === 'CANCELLED') counts.gaveUp++
        else if (error !== null) counts.refused++
        else if (tookMs > patienceMs) counts.late++
        else {
          counts.good++
          goodMs.push(tookMs)
          mine.good++
          mine.ms.push(tookMs)
          const tenth = Math.floor((clock.nowNs() - startNs) / 1e8)
          while (goodByTenth.length <= tenth) goodByTenth.push(0)
          goodByTenth[tenth] = (goodByTenth[tenth] as number) + 1
        }
        if (then !== null) clock.after(error === null ? 0 : 1e7, then)
      },
    })
    if (one.deadlineMs !== undefined) request.deadlineNs = sentNs + one.deadlineMs * 1e6
    if (patienceMs !== Infinity && one.disconnects !== false)
      stop = clock.after(patienceMs * 1e6, () => request.cancel())
    scheduler.enqueue(request)
  }

  const patient: Clients = { rate: () => 0, patienceMs: () => Infinity }
  for (let i = 0; i < burst; i++) send(clients.length, undefined, patient, null)
  for (let i = 0; i < closedLoop; i++) {
    const again = (): void => {
      if (clock.nowNs() < endNs) send(clients.length + 1, undefined, patient, again)
    }
    clock.after(i * 1e5, again)
  }
  clients.forEach((one, at) => {
    const caller = tenantCaller(one.tenant ?? '', one.weight ?? 1)
    const arrive = (): void => {
      if (clock.nowNs() >= endNs) return
      const rate = one.rate((clock.nowNs() - startNs) / 1e9)
      const waitNs = rate > 0 ? exponential(random, 1e9 / rate) : Infinity
      // The rate may change meanwhile: what has not come within 10 ms is drawn anew.
      clock.after(Math.min(waitNs, 1e7), () => {
        if (waitNs <= 1e7) send(at, caller, one, null)
        arrive()
      })
    }
    arrive()
  })
  let waitingAtEnd = -1
  while (clock.step()) if (waitingAtEnd < 0 && clock.nowNs() >= endNs) waitingAtEnd = scheduler.pendingCount
  if (open !== 0) throw new Error(`${open} requests never ended`)
  return { ...counts, goodMs, goodByTenth, byClients, startOrder, waitingAtEnd }
}

export function quantileOf(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}
