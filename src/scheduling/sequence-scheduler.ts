// Triton's sequence batcher: requests that share a correlation id run on one Instance, one after the other, in the order
// in which they came. A sequence holds a slot from its first request to its last; more sequences than slots wait in a
// backlog. When the sequences of an Instance run is decided by planSequenceBatch.

import type { Cancel, Clock } from '../base/clock.ts'
import { ServerError } from '../base/server-error.ts'
import type { Instance } from '../model/backend.ts'
import { Batch } from '../model/batch.ts'
import type { InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler } from '../model/scheduler.ts'
import { ResponseOrder } from './response-order.ts'
import { fillerRequest, shapeKey } from './sequence-filler.ts'
import { SequenceLane } from './sequence-lane.ts'
import { planSequenceBatch } from './sequence-plan.ts'
import { SequenceQueue, type QueuedRequest } from './sequence-queue.ts'
import type { SequenceSettings } from './sequence-settings.ts'

export type SequenceDependencies = {
  readonly clock: Clock
  /** Calls back once what is happening now has happened, so that requests of one turn of the loop run together. */
  readonly afterThisTurn: (fire: () => void) => void
}

export class SequenceScheduler implements Scheduler {
  readonly #clock: Clock
  readonly #afterThisTurn: SequenceDependencies['afterThisTurn']
  readonly #settings: SequenceSettings
  readonly #lanes: readonly SequenceLane[]
  /** Sequences that take requests, the one that was active longest ago first. */
  readonly #active = new Map<bigint | string, SequenceQueue>()
  /** Sequences without a slot, in the order in which they began. */
  readonly #backlog = new Set<SequenceQueue>()
  readonly #order: ResponseOrder | null
  #arrivals = 0
  #pendingCount = 0
  #runningCount = 0
  #isDraining = false
  #isTurnAwaited = false
  #onDrained: (() => void) | null = null
  #cancelReaper: Cancel | null = null
  #cancelExpiry: Cancel | null = null
  #expiryNs = Infinity

  constructor(dependencies: SequenceDependencies, instances: readonly Instance[], settings: SequenceSettings) {
    this.#clock = dependencies.clock
    this.#afterThisTurn = dependencies.afterThisTurn
    this.#settings = settings
    this.#lanes = instances.map((instance) => new SequenceLane(instance, settings.slotCount))
    this.#order = settings.preservesOrder ? new ResponseOrder() : null
  }

  get pendingCount(): number {
    return this.#pendingCount
  }

  // HOT: once per request.
  enqueue(request: InferenceRequest): void {
    const refusal = this.#refusal(request)
    if (refusal !== null) {
      request.fail(refusal)
      return
    }
    const nowNs = this.#clock.nowNs()
    request.queueStartNs = nowNs
    const sequence = this.#active.get(request.correlationId) ?? this.#begin(request.correlationId)
    sequence.isEndQueued = request.isSequenceEnd
    sequence.requests.push({ request, order: this.#arrivals++, queuedNs: nowNs })
    this.#pendingCount++
    request.onCancel = () => this.#endSequence(sequence, cancelled)
    this.#order?.join(request)
    this.#touch(sequence, nowNs)
    if (sequence.lane === null) this.#limitWait(sequence, request, nowNs)
    else this.#dispatchSoon(sequence.lane)
  }

  instancesChanged(): void {
    for (const lane of this.#lanes) this.#dispatch(lane)
  }

  /** What waits for more requests to come runs now: none will. Slots are for the backlog, for the same reason. */
  drain(): Promise<void> {
    this.#isDraining = true
    for (const sequence of this.#active.values()) {
      if (sequence.running === null && sequence.requests.size === 0) this.#leaveSlot(sequence)
    }
    for (const lane of this.#lanes) this.#dispatch(lane)
    return new Promise((resolve) => {
      this.#onDrained = resolve
      this.#checkDrained()
    })
  }

  close(): void {
    this.#isDraining = true
    this.#forgetTimers()
    const sequences = [...this.#active.values(), ...this.#lanes.flatMap((lane) => lane.slots)]
    for (const sequence of sequences) if (sequence !== null) this.#endSequence(sequence, stopped)
    this.#checkDrained()
  }

  #refusal(request: InferenceRequest): ServerError | null {
    if (this.#isDraining) return stopped(request)
    const { modelName, controls, maxQueueSize } = this.#settings
    const { correlationId } = request
    if (request.batchSize > 1) {
      return invalid(
        `inference request to model '${modelName}' must specify batch-size 1 due to requirements of sequence batcher`,
      )
    }
    if (correlationId === 0n || correlationId === '') {
      return invalid(`inference request to model '${modelName}' must specify a non-zero or non-empty correlation ID`)
    }
    const problem = controls.problem(request)
    if (problem !== null) return invalid(`${request.errorPrefix}${problem}`)
    const known = this.#active.get(correlationId)
    if (!request.isSequenceStart && (known === undefined || known.isEndQueued)) {
      return invalid(
        `inference request for sequence ${correlationId} to model '${modelName}' must specify the START flag on the first request of the sequence`,
      )
    }
    if (this.#pendingCount < maxQueueSize) return null
    return ServerError.withoutStack('UNAVAILABLE', `${request.errorPrefix}Exceeds maximum queue size`)
  }

  #begin(id: bigint | string): SequenceQueue {
    const sequence = new SequenceQueue(id)
    this.#active.set(id, sequence)
    const lane = this.#backlog.size === 0 ? this.#freeLane() : null
    if (lane === null) this.#backlog.add(sequence)
    else this.#place(sequence, lane)
    return sequence
  }

  /** The lane with the lowest free slot: so sequences spread over Instances. One whose Worker is down comes last. */
  #freeLane(): SequenceLane | null {
    let best: SequenceLane | null = null
    let bestRank = Infinity
    for (const lane of this.#lanes) {
      const slot = lane.slots.indexOf(null)
      if (slot < 0) continue
      const rank = slot + (lane.instance.isReady ? 0 : lane.slots.length)
      if (rank >= bestRank) continue
      best = lane
      bestRank = rank
    }
    return best
  }

  #place(sequence: SequenceQueue, lane: SequenceLane): void {
    sequence.lane = lane
    sequence.slot = lane.slots.indexOf(null)
    lane.slots[sequence.slot] = sequence
  }

  /** Takes the slot away from a sequence that is over, and gives it to the one that has waited longest. */
  #leaveSlot(sequence: SequenceQueue): void {
    if (this.#active.get(sequence.id) === sequence) this.#active.delete(sequence.id)
    this.#backlog.delete(sequence)
    const { lane } = sequence
    if (lane === null) return
    lane.slots[sequence.slot] = null
    sequence.lane = null
    const [next] = this.#backlog
    if (next === undefined) return
    this.#backlog.delete(next)
    next.deadlineNs = Infinity
    this.#place(next, lane)
    this.#dispatchSoon(lane)
  }

  /** Ends a sequence before its time. What of it runs is left to run; its slot is free after that. */
  #endSequence(sequence: SequenceQueue, errorFor: (request: InferenceRequest) => ServerError): void {
    if (this.#active.get(sequence.id) === sequence) this.#active.delete(sequence.id)
    sequence.isOver = true
    const queued: QueuedRequest[] = []
    for (let next = sequence.requests.take(); next !== undefined; next = sequence.requests.take()) queued.push(next)
    this.#pendingCount -= queued.length
    if (sequence.running === null) this.#leaveSlot(sequence)
    for (const { request } of queued) {
      request.onCancel = null
      request.fail(errorFor(request))
    }
    this.#checkDrained()
  }

  #dispatchSoon(lane: SequenceLane): void {
    if (this.#settings.limits.maxBatchSize === 1) this.#dispatch(lane)
    else if (!this.#isTurnAwaited) {
      this.#isTurnAwaited = true
      this.#afterThisTurn(this.#endTurn)
    }
  }

  readonly #endTurn = (): void => {
    this.#isTurnAwaited = false
    for (const lane of this.#lanes) this.#dispatch(lane)
  }

  /** An Instance may finish before `execute` returns: hence the guard, not recursion. */
  #dispatch(lane: SequenceLane): void {
    if (lane.isDispatching) return
    lane.isDispatching = true
    lane.forgetWake()
    while (!lane.isExecuting && lane.instance.isReady) {
      const ready = lane.ready()
      if (this.#settings.isOldestFirst) ready.sort((a, b) => headOf(a).order - headOf(b).order)
      const nowNs = this.#clock.nowNs()
      const oldestNs = ready.reduce((oldest, sequence) => Math.min(oldest, headOf(sequence).queuedNs), Infinity)
      const counts = { readyCount: ready.length, slotCount: lane.slots.length, oldestNs, nowNs }
      const plan = planSequenceBatch(this.#settings.limits, counts)
      if (plan.kind === 'idle') break
      if (plan.kind === 'wait' && !this.#isDraining) {
        lane.cancelWake = this.#clock.afterExactly(plan.untilNs - nowNs, () => this.#dispatch(lane))
        break
      }
      const most = plan.kind === 'run' ? plan.sequenceCount : this.#settings.limits.maxBatchSize
      this.#execute(lane, this.#alike(ready).slice(0, most))
    }
    lane.isDispatching = false
    this.#checkDrained()
  }

  /** Those that fit the first in shape: an execution has one shape. The others lead the next one. */
  #alike(ready: readonly SequenceQueue[]): readonly SequenceQueue[] {
    const [first] = ready
    if (first === undefined || ready.length === 1 || !this.#settings.shapesMayDiffer) return ready
    const key = shapeKey(headOf(first).request, first.states)
    return ready.filter((sequence) => shapeKey(headOf(sequence).request, sequence.states) === key)
  }

  #execute(lane: SequenceLane, chosen: readonly SequenceQueue[]): void {
    const { controls, states, isOldestFirst } = this.#settings
    const requests: InferenceRequest[] = []
    const sequences: SequenceQueue[] = []
    const sample = headOf(chosen[0] as SequenceQueue).request
    const sampleInputs = sample.inputs
    // With a READY control a request's place in the batch is its slot, and the model is told which places are empty.
    const isBySlot = controls.hasReady && !isOldestFirst
    const places = isBySlot ? Math.max(...chosen.map(({ slot }) => slot)) + 1 : chosen.length
    for (let place = 0; place < places; place++) {
      const sequence = isBySlot ? (lane.slots[place] ?? null) : (chosen[place] as SequenceQueue)
      if (sequence === null || !chosen.includes(sequence)) {
        requests.push(fillerRequest(sample, sampleInputs, controls, states))
        continue
      }
      requests.push(this.#prepare(sequence))
      sequences.push(sequence)
    }
    lane.isExecuting = true
    this.#runningCount += sequences.length
    const batch = new Batch(requests, requests.length, () => {
      // All of them before the next execution: they are to share it.
      for (const sequence of sequences) this.#settle(sequence)
      lane.isExecuting = false
      this.#dispatch(lane)
    })
    lane.instance.execute(batch)
  }

  #prepare(sequence: SequenceQueue): InferenceRequest {
    const { controls, states } = this.#settings
    const { request } = sequence.requests.take() as QueuedRequest
    this.#pendingCount--
    sequence.running = request
    sequence.awaitedCount = 2
    request.onCancel = null
    if (request.isSequenceStart || sequence.states === null) sequence.states = states.isEmpty ? null : states.begin()
    const requested = request.requestedOutputs
    const inputs = [...request.inputs]
    controls.append(inputs, request)
    states.append(inputs, sequence.states)
    request.inputs = inputs
    if (!states.isEmpty) request.requestedOutputs = states.withStates(requested)
    const next = request.gate
    request.gate = (response) => this.#answered(sequence, request, response, requested, next)
    return request
  }

  // HOT: once per response.
  #answered(
    sequence: SequenceQueue,
    request: InferenceRequest,
    response: InferenceResponse,
    requested: readonly string[],
    next: InferenceRequest['gate'],
  ): void {
    const { states } = this.#settings
    const answer = sequence.states === null ? response : states.take(response, sequence.states, requested)
    if (next === null) request.deliver(answer)
    else next(answer, request)
    if (!response.isFinal) return
    // After a request that was called off halfway nobody knows what the model remembers.
    if (response.error?.code === 'CANCELLED') this.#endSequence(sequence, cancelled)
    this.#settle(sequence)
  }

  /** Called for the end of an execution and for the last answer; after both the next request of the sequence may run. */
  #settle(sequence: SequenceQueue): void {
    if (--sequence.awaitedCount > 0) return
    const isEnd = sequence.running?.isSequenceEnd ?? false
    sequence.running = null
    this.#runningCount--
    const isLast = isEnd || this.#isDraining
    if (sequence.isOver || (isLast && sequence.requests.size === 0)) this.#leaveSlot(sequence)
    else {
      this.#touch(sequence, this.#clock.nowNs())
      if (sequence.lane !== null && !sequence.lane.isExecuting) this.#dispatch(sequence.lane)
    }
    this.#checkDrained()
  }

  #touch(sequence: SequenceQueue, nowNs: number): void {
    sequence.lastActiveNs = nowNs
    if (this.#active.get(sequence.id) !== sequence) return
    // At the end of the map: its order is that of the idle times.
    this.#active.delete(sequence.id)
    this.#active.set(sequence.id, sequence)
    if (this.#cancelReaper === null) this.#reapAfter(this.#settings.idleNs)
  }

  #reapAfter(delayNs: number): void {
    this.#cancelReaper?.()
    this.#cancelReaper = this.#clock.after(delayNs, () => {
      this.#cancelReaper = null
      this.#reap(this.#clock.nowNs())
    })
  }

  #reap(nowNs: number): void {
    for (const sequence of this.#active.values()) {
      const leftNs = sequence.lastActiveNs + this.#settings.idleNs - nowNs
      if (leftNs > 0) {
        this.#reapAfter(leftNs)
        return
      }
      const isWaited = sequence.running !== null || sequence.requests.size > 0
      if (isWaited) this.#touch(sequence, nowNs)
      else this.#endSequence(sequence, cancelled)
    }
  }

  /** The time a request gives itself counts for the wait in the backlog, and then for its whole sequence. */
  #limitWait(sequence: SequenceQueue, request: InferenceRequest, nowNs: number): void {
    if (request.timeoutUs === 0n) return
    sequence.deadlineNs = Math.min(sequence.deadlineNs, nowNs + Number(request.timeoutUs) * 1000)
    if (sequence.deadlineNs < this.#expiryNs) this.#expireAt(sequence.deadlineNs, nowNs)
  }

  #expireAt(deadlineNs: number, nowNs: number): void {
    this.#cancelExpiry?.()
    this.#expiryNs = deadlineNs
    this.#cancelExpiry = this.#clock.after(deadlineNs - nowNs, () => {
      this.#cancelExpiry = null
      this.#expiryNs = Infinity
      const firedNs = this.#clock.nowNs()
      for (const sequence of this.#backlog) if (sequence.deadlineNs <= firedNs) this.#endSequence(sequence, expired)
      const nextNs = [...this.#backlog].reduce((first, { deadlineNs: each }) => Math.min(first, each), Infinity)
      if (nextNs < this.#expiryNs) this.#expireAt(nextNs, firedNs)
    })
  }

  #forgetTimers(): void {
    this.#cancelReaper?.()
    this.#cancelReaper = null
    this.#cancelExpiry?.()
    this.#cancelExpiry = null
    this.#expiryNs = Infinity
    for (const lane of this.#lanes) lane.forgetWake()
  }

  #checkDrained(): void {
    if (this.#onDrained === null || this.#pendingCount > 0 || this.#runningCount > 0) return
    this.#forgetTimers()
    const onDrained = this.#onDrained
    this.#onDrained = null
    onDrained()
  }
}

const headOf = (sequence: SequenceQueue): QueuedRequest => sequence.requests.peek() as QueuedRequest

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)
const cancelled = (): ServerError => ServerError.withoutStack('CANCELLED', '')
const expired = (): ServerError =>
  ServerError.withoutStack('UNAVAILABLE', 'timeout of the corresponding sequence has been expired')
const stopped = (request: InferenceRequest): ServerError =>
  ServerError.withoutStack(
    'UNAVAILABLE',
    `${request.errorPrefix}Server is stopping, scheduler for model has stopped accepting new inference requests`,
  )
