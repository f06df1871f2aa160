// Triton's sequence batcher: requests that share a correlation id run on one Instance, one after the other, in the order
// in which they came. A sequence holds a slot from its first request to its last; more sequences than slots wait in a
// backlog. planSequenceBatch decides when the sequences of an Instance run.

import type { Cancel, Clock } from '../base/clock.ts'
import { Drain } from '../base/drain.ts'
import { type Log, silentLog } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import type { Instance } from '../model/backend.ts'
import { Batch } from '../model/batch.ts'
import type { InferenceRequest, RequestLender } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { Scheduler, Sequences } from '../model/scheduler.ts'
import { Deadlines } from './deadlines.ts'
import { canBegin } from './instance-seat.ts'
import { queueFullError, stoppedError } from './refusals.ts'
import { ResponseOrder } from './response-order.ts'
import { fillerRequest, shapeKey } from './sequence-filler.ts'
import { SequenceLane, SequenceQueue, type QueuedRequest } from './sequence-lane.ts'
import { planSequenceBatch } from './sequence-plan.ts'
import type { SequenceSettings } from './sequence-settings.ts'
import { mayStart, type StartHold } from './start-hold.ts'

export type SequenceDependencies = {
  readonly clock: Clock
  /** Calls back at the end of this turn of the event loop, so that requests of one turn run together. */
  readonly afterThisTurn: (fire: () => void) => void
  readonly log?: Log
}

export class SequenceScheduler implements Scheduler, Sequences {
  readonly #clock: Clock
  readonly #afterThisTurn: SequenceDependencies['afterThisTurn']
  readonly #log: Log
  readonly #settings: SequenceSettings
  /** A lane whose Instance was taken away stays here until its sequences have ended. */
  #lanes: readonly SequenceLane[]
  /** Sequences that take requests; the one that has been idle longest comes first. */
  readonly #active = new Map<bigint | string, SequenceQueue>()
  /** Sequences without a slot, in the order in which they began. */
  readonly #backlog = new Set<SequenceQueue>()
  #rejoinedCount = 0
  readonly #order: ResponseOrder | null
  #arrivals = 0
  #namedCount = 0n
  #pendingCount = 0
  #runningCount = 0
  readonly #drain = new Drain(() => this.#pendingCount === 0 && this.#runningCount === 0)
  readonly #sequences = new Drain(() => this.#active.size === 0)
  /** Null as soon as the scheduler has begun. */
  #hold: StartHold | null
  #isClosed = false
  #isTurnAwaited = false
  #cancelReaper: Cancel | null = null
  /** The deadlines of sequences in the backlog. */
  readonly #deadlines: Deadlines<SequenceQueue>
  #quietUntilNs = 0

  constructor(dependencies: SequenceDependencies, instances: readonly Instance[], settings: SequenceSettings) {
    this.#clock = dependencies.clock
    this.#afterThisTurn = dependencies.afterThisTurn
    this.#log = (dependencies.log ?? silentLog).from('sequence-scheduler.ts')
    this.#settings = settings
    this.#hold = settings.startHold ?? null
    this.#lanes = instances.map((instance) => new SequenceLane(instance, settings.slotCount))
    this.#deadlines = new Deadlines(this.#clock, (nowNs) => {
      for (let due = this.#deadlines.takeDue(nowNs); due !== null; due = this.#deadlines.takeDue(nowNs)) {
        this.#endSequence(due, expired)
      }
    })
    this.#order = settings.preservesOrder ? new ResponseOrder() : null
  }

  get pendingCount(): number {
    return this.#pendingCount
  }

  get sequences(): Sequences {
    return this
  }

  // HOT: once per request.
  enqueue(request: InferenceRequest): void {
    const refusal = this.#refusal(request)
    if (refusal !== null) {
      request.fail(refusal)
      return
    }
    const nowNs = this.#clock.nowNs()
    const known = hasId(request) ? this.#active.get(request.correlationId) : undefined
    if (known !== undefined && request.isSequenceStart && !known.isEndQueued) this.#warnOfConflict(known.id, nowNs)
    const { isIterative } = this.#settings
    // The answer of an iterative model ends the sequence, as in Triton: clients send no END, and would keep the slot.
    const sequence =
      known ?? (hasId(request) ? this.#begin(request.correlationId, isIterative) : this.#beginUnnamed(request))
    sequence.isEndQueued = request.isSequenceEnd
    this.#order?.join(request)
    sequence.requests.push(this.#queued(sequence, request, nowNs))
    if (sequence.lane === null) this.#limitWait(sequence, request, nowNs, nowNs)
    else this.#dispatchSoon(sequence.lane)
    if (this.#hold !== null) this.#startIfEnough(this.#hold)
  }

  #startIfEnough(hold: StartHold): void {
    let backlogCount = 0
    for (const { lane, requests } of this.#active.values()) {
      // Behind the end of a sequence, another one of the same id waits for its slot.
      let isWaitingForSlot = lane === null
      for (const { request } of requests) {
        if (isWaitingForSlot) backlogCount++
        else isWaitingForSlot = request.isSequenceEnd
      }
    }
    if (!mayStart(hold, this.#pendingCount - backlogCount, backlogCount)) return
    this.#hold = null
    for (const lane of this.#lanes) this.#dispatchSoon(lane)
  }

  /** Clients can cause this warning, so it is written at most once a second. */
  #warnOfConflict(id: bigint | string, nowNs: number): void {
    if (nowNs < this.#quietUntilNs) return
    this.#quietUntilNs = nowNs + 1e9
    this.#log.warning(
      `sequence ${id} for model '${this.#settings.modelName}' has a conflict. The previous sequence did not end before this sequence start. Previous sequence will be terminated early.`,
    )
  }

  #queued(sequence: SequenceQueue, request: InferenceRequest, nowNs: number): QueuedRequest {
    request.queueStartNs = nowNs
    request.handOver({ onCancel: () => this.#endSequence(sequence, cancelled) })
    this.#pendingCount++
    this.#touch(sequence, nowNs)
    return { request, order: this.#arrivals++, queuedNs: nowNs }
  }

  instancesChanged(): void {
    for (const lane of this.#lanes) this.#dispatch(lane)
  }

  get sequenceCount(): number {
    return this.#active.size
  }

  holdsSequence(id: bigint | string): boolean {
    return this.#active.get(id)?.isEndQueued === false
  }

  sequencesEnded(): Promise<void> {
    return this.#sequences.idle()
  }

  setInstances(instances: readonly Instance[]): Promise<void> {
    const known = new Map(this.#lanes.map((lane) => [lane.instance, lane]))
    const staying = instances.map(
      (instance) => known.get(instance) ?? new SequenceLane(instance, this.#settings.slotCount),
    )
    const leaving = this.#lanes.filter((lane) => !staying.includes(lane))
    this.#lanes = [...staying, ...leaving]
    // The caller of an earlier change waits for the lanes that the earlier change took away.
    const left = leaving
      .filter(({ onLeft }) => onLeft === null)
      .map(
        (lane) =>
          new Promise<void>((resolve) => {
            lane.onLeft = () => {
              this.#lanes = this.#lanes.filter((each) => each !== lane)
              lane.forgetWake()
              resolve()
            }
            if (lane.isEmpty) lane.onLeft()
          }),
      )
    for (let lane = this.#freeLane(); lane !== null && this.#backlog.size > 0; lane = this.#freeLane()) {
      this.#placeNext(lane)
    }
    return Promise.all(left).then(() => undefined)
  }

  /** No more requests will come: waiting batches run now, and sequences without a request give their slots up. */
  drain(): Promise<void> {
    this.#drain.refuse()
    this.#hold = null
    for (const sequence of this.#active.values()) {
      if (sequence.running === null && sequence.requests.size === 0) this.#leaveSlot(sequence)
    }
    for (const lane of this.#lanes) this.#dispatch(lane)
    return this.#drain.idle().then(() => this.#forgetTimers())
  }

  close(): void {
    this.#drain.refuse()
    this.#isClosed = true
    this.#forgetTimers()
    const sequences = [...this.#active.values(), ...this.#lanes.flatMap((lane) => lane.slots)]
    for (const sequence of sequences) if (sequence !== null) this.#endSequence(sequence, stoppedError)
    this.#checkDrained()
  }

  #refusal(request: InferenceRequest): ServerError | null {
    if (this.#drain.isRefusing) return stoppedError(request)
    const { modelName, controls, maxQueueSize, isIterative } = this.#settings
    const { correlationId } = request
    if (request.batchSize > 1) {
      return invalid(
        `inference request to model '${modelName}' must specify batch-size 1 due to requirements of sequence batcher`,
      )
    }
    if (!hasId(request) && !isIterative) {
      return invalid(`inference request to model '${modelName}' must specify a non-zero or non-empty correlation ID`)
    }
    const problem = controls.problem(request)
    if (problem !== null) return invalid(`${request.errorPrefix}${problem}`)
    const known = this.#active.get(correlationId)
    if (hasId(request) && !request.isSequenceStart && (known === undefined || known.isEndQueued)) {
      return invalid(
        `inference request for sequence ${correlationId} to model '${modelName}' must specify the START flag on the first request of the sequence`,
      )
    }
    const isFull = this.#pendingCount >= maxQueueSize || this.#order?.isFull(maxQueueSize) === true
    return isFull ? queueFullError(request) : null
  }

  /** As in Triton the model gets a running number as the correlation id. Numbers that clients use are skipped. */
  #beginUnnamed(request: InferenceRequest): SequenceQueue {
    do this.#namedCount++
    while (this.#active.has(this.#namedCount))
    request.correlationId = this.#namedCount
    request.isSequenceStart = true
    // The scheduler uses the negative number, which no client can send, so that no request joins this sequence.
    return this.#begin(-this.#namedCount, true)
  }

  #begin(id: bigint | string, endsWithAnswer = false): SequenceQueue {
    const sequence = new SequenceQueue(id, endsWithAnswer)
    this.#active.set(id, sequence)
    const lane = this.#backlog.size === 0 ? this.#freeLane() : null
    if (lane === null) this.#backlog.add(sequence)
    else this.#place(sequence, lane)
    return sequence
  }

  /** The lane with the lowest free slot: so sequences spread over Instances. A lane whose Worker is down comes last. */
  #freeLane(): SequenceLane | null {
    let best: SequenceLane | null = null
    let bestRank = Infinity
    for (const lane of this.#lanes) {
      const slot = lane.slots.indexOf(null)
      if (slot < 0 || lane.onLeft !== null) continue
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

  /** Takes the slot from a sequence that is over, and gives it to the sequence that has waited longest. */
  #leaveSlot(sequence: SequenceQueue): void {
    if (this.#active.get(sequence.id) === sequence) this.#active.delete(sequence.id)
    this.#leaveBacklog(sequence)
    const { lane } = sequence
    if (lane === null) return
    lane.slots[sequence.slot] = null
    sequence.lane = null
    if (lane.onLeft === null) this.#placeNext(lane)
    else if (lane.isEmpty) lane.onLeft()
  }

  /**
   * A sequence has ended, and another one of its id is behind it. That one has the slot in its turn: a client that sends
   * one after the other under the same id must not keep the slot from all others.
   */
  #beginAgain(sequence: SequenceQueue): void {
    const lane = sequence.lane as SequenceLane
    lane.slots[sequence.slot] = null
    sequence.lane = null
    this.#backlog.add(sequence)
    sequence.hasRejoined = true
    this.#rejoinedCount++
    const nowNs = this.#clock.nowNs()
    for (const { request, queuedNs } of sequence.requests) this.#limitWait(sequence, request, queuedNs, nowNs)
    const free = this.#freeLane()
    if (free !== null) this.#placeNext(free)
    if (lane.onLeft !== null && lane.isEmpty) lane.onLeft()
  }

  #leaveBacklog(sequence: SequenceQueue): void {
    this.#backlog.delete(sequence)
    if (sequence.hasRejoined) this.#rejoinedCount--
    sequence.hasRejoined = false
    this.#deadlines.remove(sequence)
    sequence.deadlineNs = Infinity
  }

  /** The sequence in the backlog whose first request came first. */
  #longestWaiting(): SequenceQueue | undefined {
    let [longest] = this.#backlog
    if (longest === undefined || this.#rejoinedCount === 0) return longest
    for (const each of this.#backlog) if (headOf(each).order < headOf(longest).order) longest = each
    return longest
  }

  #placeNext(lane: SequenceLane): void {
    const next = this.#longestWaiting()
    if (next === undefined) return
    this.#leaveBacklog(next)
    this.#place(next, lane)
    this.#dispatchSoon(lane)
  }

  /** Ends a sequence early. A request that executes goes on, and the slot is free after that. */
  #endSequence(sequence: SequenceQueue, errorFor: (request: InferenceRequest) => ServerError): void {
    if (this.#active.get(sequence.id) === sequence) this.#active.delete(sequence.id)
    sequence.isOver = true
    const queued: QueuedRequest[] = []
    for (let next = sequence.requests.take(); next !== undefined; next = sequence.requests.take()) queued.push(next)
    this.#pendingCount -= queued.length
    const { lane } = sequence
    if (sequence.running === null) this.#leaveSlot(sequence)
    if (lane !== null && lane.ready().length === 0) lane.instance.withdraw?.()
    for (const { request } of queued) {
      request.handOver(null)
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

  /** The guard is there because an Instance may finish inside `execute`. */
  #dispatch(lane: SequenceLane): void {
    if (lane.isDispatching || this.#hold !== null) return
    lane.isDispatching = true
    lane.forgetWake()
    while (!lane.isExecuting) {
      const ready = lane.ready()
      if (ready.length === 0) lane.instance.withdraw?.()
      if (ready.length === 0 || !canBegin(lane.instance)) break
      if (this.#settings.isOldestFirst) ready.sort((a, b) => headOf(a).order - headOf(b).order)
      const nowNs = this.#clock.nowNs()
      const oldestNs = ready.reduce((oldest, sequence) => Math.min(oldest, headOf(sequence).queuedNs), Infinity)
      const counts = { readyCount: ready.length, slotCount: lane.slots.length, oldestNs, nowNs }
      const plan = planSequenceBatch(this.#settings.limits, counts)
      if (plan.kind === 'idle') break
      if (plan.kind === 'wait' && !this.#drain.isRefusing) {
        lane.cancelWake = this.#clock.afterExactly(plan.untilNs - nowNs, () => this.#dispatch(lane))
        break
      }
      const most = plan.kind === 'run' ? plan.sequenceCount : this.#settings.limits.maxBatchSize
      this.#execute(lane, this.#alike(ready).slice(0, most))
    }
    lane.isDispatching = false
    this.#checkDrained()
  }

  /** The sequences whose shapes equal those of the first: an execution has one shape. The others run later. */
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
    // With a READY control a request's place in the batch is its slot, and the control tells which places are empty.
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
      // All sequences settle before the next execution, so that they can share it.
      for (const sequence of sequences) this.#settle(sequence)
      lane.isExecuting = false
      if (lane.onLeft !== null && lane.isEmpty) lane.onLeft()
      this.#dispatch(lane)
    })
    lane.instance.execute(batch)
  }

  #prepare(sequence: SequenceQueue): InferenceRequest {
    const { controls, states, isIterative } = this.#settings
    const queued = sequence.requests.take() as QueuedRequest
    const { request } = queued
    this.#pendingCount--
    sequence.running = queued
    sequence.awaitedCount = 2
    request.handOver(null)
    if (request.isSequenceStart || sequence.states === null) sequence.states = states.isEmpty ? null : states.begin()
    const { inputs: given, requestedOutputs: requested } = request
    const inputs = [...given]
    controls.append(inputs, request)
    states.append(inputs, sequence.states)
    request.inputs = inputs
    if (!states.isEmpty) request.requestedOutputs = states.withStates(requested)
    request.setStage('states', {
      pass: (response) => (sequence.states === null ? response : states.take(response, sequence.states, requested)),
      passed: (response) => this.#answered(sequence, response),
    })
    if (isIterative) {
      const takeBack: RequestLender['takeBack'] = (_, outputs) => {
        // The request becomes as it came, without its start flag: the start is over.
        request.inputs = given
        request.requestedOutputs = requested
        request.setStage('states', null)
        request.isSequenceStart = false
        if (sequence.states !== null) states.keep(outputs, sequence.states)
        this.#settle(sequence)
      }
      request.lend({ takeBack })
    }
    return request
  }

  // HOT: once per response.
  #answered(sequence: SequenceQueue, response: InferenceResponse): void {
    if (!response.isFinal) return
    // After a request that was cancelled halfway, the state of the model is not known.
    if (response.error?.code === 'CANCELLED') this.#endSequence(sequence, cancelled)
    this.#settle(sequence)
  }

  /** Called at the end of an execution and at the final answer; after both the next request of the sequence may run. */
  #settle(sequence: SequenceQueue): void {
    if (--sequence.awaitedCount > 0) return
    const { request } = sequence.running as QueuedRequest
    sequence.running = null
    this.#runningCount--
    const isLast = request.isSequenceEnd || sequence.endsWithAnswer || this.#drain.isRefusing
    if (request.isRescheduled) this.#queueAgain(sequence, request)
    if (sequence.isOver || (isLast && sequence.requests.size === 0)) this.#leaveSlot(sequence)
    else if (request.isSequenceEnd && !request.isRescheduled) this.#beginAgain(sequence)
    else {
      this.#touch(sequence, this.#clock.nowNs())
      // An Instance may be done before it answers. All answers of its batch are awaited, so that the next batch is as full.
      if (sequence.lane !== null && !sequence.lane.isExecuting) this.#dispatchSoon(sequence.lane)
    }
    this.#checkDrained()
  }

  /** The request counts as new among the sequences, but stays before the later requests of its own sequence. */
  #queueAgain(sequence: SequenceQueue, request: InferenceRequest): void {
    // The Worker died after it had asked for the request again, and so failed the request.
    if (request.isEnded) return
    if (sequence.isOver) {
      request.fail(this.#isClosed ? stoppedError(request) : cancelled())
      return
    }
    sequence.requests.pushFirst(this.#queued(sequence, request, this.#clock.nowNs()))
    if (request.isCancelled) this.#endSequence(sequence, cancelled)
  }

  #touch(sequence: SequenceQueue, nowNs: number): void {
    sequence.lastActiveNs = nowNs
    if (this.#active.get(sequence.id) !== sequence) return
    // The sequence moves to the end of the map, which is ordered by idle time.
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

  /** The timeout of a request bounds the wait in the backlog, and there it counts for the whole sequence. */
  #limitWait(sequence: SequenceQueue, request: InferenceRequest, queuedNs: number, nowNs: number): void {
    if (request.timeoutUs === 0n) return
    const deadlineNs = queuedNs + Number(request.timeoutUs) * 1000
    if (deadlineNs >= sequence.deadlineNs) return
    this.#deadlines.remove(sequence)
    sequence.deadlineNs = deadlineNs
    this.#deadlines.add(sequence, nowNs)
  }

  #forgetTimers(): void {
    this.#cancelReaper?.()
    this.#cancelReaper = null
    for (const lane of this.#lanes) lane.forgetWake()
  }

  #checkDrained(): void {
    this.#sequences.check()
    this.#drain.check()
  }
}

const headOf = (sequence: SequenceQueue): QueuedRequest => sequence.requests.peek() as QueuedRequest

const hasId = ({ correlationId }: InferenceRequest): boolean => correlationId !== 0n && correlationId !== ''

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)
const cancelled = (): ServerError => ServerError.withoutStack('CANCELLED', '')
const expired = (): ServerError =>
  ServerError.withoutStack('UNAVAILABLE', 'timeout of the corresponding sequence has been expired')
