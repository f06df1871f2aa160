// Makes the load of one thread: decides what each lane sends and when, and records the results.

import { SystemClock, type Cancel } from '../../base/clock.ts'
import { GrpcConnections, GrpcStreamLane, GrpcUnaryLane } from './grpc-lane.ts'
import { HttpLane } from './http-lane.ts'
import type { Lane, LaneFailure, LaneSink } from './lane.ts'
import type { LoadLevel, LoadSetup } from './load-order.ts'
import { exportedTensors } from './exported-tensors.ts'
import { outputMismatch, parseAnswer } from './output-check.ts'
import { revivedRequest, type PreparedRequest } from './prepared-request.ts'
import { beginOfTurns, ConstantSchedule, IntervalSchedule, PoissonSchedule, type Schedule } from './schedule.ts'
import { SequenceSource, type RunningSequence } from './sequence-source.ts'
import { WindowRecorder, type WindowRecord } from './window-recorder.ts'

/** The most open-loop requests under way at once. Further requests wait, and their wait counts as latency. */
const maxOpenLanes = 2048
/** Connections that an open-loop load begins with; more are made when they are needed. */
const firstOpenLanes = 32
/** The pause of a lane after its connection failed. */
const pauseMs = 50
/** A request that goes out this much after its time counts as delayed. */
const lateMs = 1
/** When connections fail for so long, the rest of a fixed number of requests is not sent. */
const giveUpMs = 3000
/** Larger answers are not parsed for the export, because their tensors are too large for it. */
const maxExportedBytes = 64 * 1024
/** How long the end of a load waits for answers. */
const drainMs = 10_000

export class LoadEngine implements LaneSink {
  readonly #setup: LoadSetup
  readonly #requests: readonly (readonly PreparedRequest[])[]
  readonly #flat: readonly PreparedRequest[]
  readonly #counters: Int32Array
  readonly #clock = new SystemClock()
  readonly #onSpent: () => void
  #recorder = new WindowRecorder()
  #connections: GrpcConnections | null = null
  #lanes: Lane[] = []
  #free: Lane[] = []
  #sequences: (RunningSequence | null)[] = []
  #source: SequenceSource | null = null
  #responseTimes: number[][] = []
  #responseOutputs: string[][] = []
  #level: LoadLevel | null = null
  #schedule: Schedule | null = null
  #beganMs = 0
  #cancelTimer: Cancel | null = null
  #nextStep: number
  #left = Infinity
  #underWay = 0
  #isStopping = false
  /** Since when all connections break; 0 after an answer. */
  #brokenSinceMs = 0
  #groupLeft = 0
  #groupLaunched = 0
  #onIdle: (() => void) | null = null

  constructor(setup: LoadSetup, onSpent: () => void) {
    this.#setup = setup
    this.#onSpent = onSpent
    this.#requests = setup.requests.map((steps) => steps.map(revivedRequest))
    this.#flat = this.#requests.flat()
    this.#counters = new Int32Array(setup.counters)
    this.#nextStep = setup.share
  }

  /** Opens what it needs and begins to send. `epochMs` is the same for all threads. Rejects when the server cannot be reached. */
  async begin(level: LoadLevel, epochMs = performance.timeOrigin + performance.now()): Promise<void> {
    const { shape } = level
    this.#level = level
    this.#left = level.budget ?? Infinity
    this.#isStopping = false
    this.#brokenSinceMs = 0
    this.#counters.fill(0)
    this.#connections =
      this.#setup.protocol === 'http' ? null : new GrpcConnections(this.#setup.target, this.#setup.fields)
    if (this.#setup.sequence !== null) {
      this.#source ??= new SequenceSource(
        this.#setup.sequence,
        this.#requests.map((steps) => steps.length),
      )
    }
    await this.#openLanes(laneCountOf(level, this.#source !== null))
    this.#recorder = new WindowRecorder()
    this.#beganMs = beginOf(shape, performance.now(), epochMs - performance.timeOrigin)
    if (shape.kind === 'concurrency') {
      for (const lane of this.#lanes) this.#sendNext(lane, 0)
    } else if (shape.kind === 'periodic') {
      this.#launchGroup(shape.start)
    } else {
      this.#free = this.#lanes.toReversed()
      this.#schedule = scheduleOf(shape)
      this.#pump()
    }
  }

  cut(): WindowRecord {
    return this.#recorder.take()
  }

  async end(): Promise<void> {
    this.#isStopping = true
    this.#cancelTimer?.()
    this.#cancelTimer = null
    this.#schedule = null
    for (const lane of this.#lanes) if (lane.request === null) this.#endSequence(lane)
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, drainMs)
        this.#onIdle = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#onIdle = null
    for (const lane of this.#lanes) lane.close()
    this.#connections?.close()
    this.#lanes = []
    this.#free = []
    this.#sequences = []
    this.#underWay = 0
    this.#level = null
  }

  onResponse(lane: Lane, nowMs: number, isEmpty: boolean): void {
    lane.responses++
    if (lane.responses === 1) lane.firstResponseMs = nowMs
    if (!isEmpty) {
      this.#recorder.responded()
      if (this.#setup.isExporting) {
        this.#responseTimes[lane.index]?.push(wallNs(nowMs))
        this.#responseOutputs[lane.index]?.push(this.#outputsOf(lane))
      }
    }
    const shape = this.#level?.shape
    if (shape?.kind === 'periodic' && lane.responses === shape.period) this.#groupStep()
  }

  // HOT: once per request.
  onDone(lane: Lane, nowMs: number, failure: LaneFailure | null): void {
    this.#underWay--
    const text = failure?.text ?? this.#mismatch(lane)
    if (text === null) {
      this.#recorder.done(lane, nowMs, lane.stamp?.isEnd === true)
      this.#counters[0] = (this.#counters[0] as number) + 1
      if (this.#setup.isExporting) this.#export(lane)
    } else {
      this.#recorder.failed(text)
      this.#counters[1] = (this.#counters[1] as number) + 1
    }
    lane.request = null
    if (lane.stamp?.isEnd === true) this.#source?.release(lane.stamp.id)
    if (failure?.isConnection === true) this.#giveUpIfBroken(nowMs)
    else this.#brokenSinceMs = 0
    if (this.#level?.shape.kind === 'periodic') {
      if (lane.responses < this.#level.shape.period) this.#groupStep()
      lane.close()
    } else if (failure?.isConnection === true && !this.#isStopping) {
      // During the pause this lane has no request under way.
      setTimeout(() => this.#release(lane), pauseMs)
      return this.#checkIdle()
    } else this.#release(lane)
    this.#checkIdle()
  }

  /** Without this, a server that is gone would get a million requests until the last has failed. */
  #giveUpIfBroken(nowMs: number): void {
    if (this.#brokenSinceMs === 0) this.#brokenSinceMs = nowMs
    if (this.#level?.budget !== null && nowMs - this.#brokenSinceMs > giveUpMs) this.#left = 0
  }

  #checkIdle(): void {
    if (this.#underWay > 0) return
    this.#onIdle?.()
    if (this.#left <= 0 && !this.#isStopping) this.#onSpent()
  }

  /** The lane may carry its next request. */
  #release(lane: Lane): void {
    if (this.#lanes[lane.index] !== lane) return
    if (this.#isStopping) return this.#endSequence(lane)
    if (this.#schedule === null) return this.#sendNext(lane, 0)
    this.#free.push(lane)
    this.#pump()
  }

  /** Sends everything that is due, as far as there are lanes, and wakes up for the next. */
  #pump(): void {
    const schedule = this.#schedule
    if (schedule === null) return
    while (this.#left > 0) {
      const dueMs = this.#beganMs + schedule.nextMs
      const nowMs = performance.now()
      if (dueMs > nowMs) {
        this.#wakeAt(dueMs - nowMs)
        return
      }
      const lane = this.#freeLane()
      if (lane === null) return
      schedule.advance()
      this.#sendNext(lane, dueMs)
    }
  }

  #wakeAt(delayMs: number): void {
    this.#cancelTimer?.()
    this.#cancelTimer = this.#clock.afterExactly(delayMs * 1e6, () => {
      this.#cancelTimer = null
      this.#pump()
    })
  }

  #freeLane(): Lane | null {
    const lane = this.#free.pop()
    if (lane !== undefined) return lane
    // One sequence is one lane: its requests must arrive in their order.
    if (this.#source !== null || this.#lanes.length >= maxOpenLanes) return null
    return this.#addLane()
  }

  /** `dueMs` 0: the request is due now. */
  #sendNext(lane: Lane, dueMs: number): void {
    if (this.#left <= 0 || this.#isStopping) return
    this.#left--
    this.#transmit(lane, dueMs, false)
  }

  #transmit(lane: Lane, dueMs: number, isLast: boolean): void {
    this.#underWay++
    const intendedMs = dueMs === 0 ? performance.now() : dueMs
    if (this.#setup.isExporting) {
      this.#responseTimes[lane.index] = []
      this.#responseOutputs[lane.index] = []
    }
    if (this.#source === null) {
      const request = this.#flat[this.#nextStep % this.#flat.length] as PreparedRequest
      this.#nextStep++
      lane.send(request, null, intendedMs)
    } else {
      const sequence = this.#runningSequence(lane)
      const steps = this.#requests[sequence.stream] as readonly PreparedRequest[]
      const request = steps[sequence.step % steps.length] as PreparedRequest
      lane.send(request, sequence.next(isLast || this.#left <= 0), intendedMs)
      if (sequence.isOver) this.#sequences[lane.index] = null
    }
    this.#recorder.sent(lane.sentMs - intendedMs > lateMs)
  }

  #runningSequence(lane: Lane): RunningSequence {
    const known = this.#sequences[lane.index]
    if (known !== undefined && known !== null) return known
    const begun = (this.#source as SequenceSource).begin()
    this.#sequences[lane.index] = begun
    return begun
  }

  /** Ends a sequence, which would otherwise keep its slot in the server until its idle time is over. */
  #endSequence(lane: Lane): void {
    const sequence = this.#sequences[lane.index]
    if (sequence !== undefined && sequence !== null && sequence.step > 0) this.#transmit(lane, 0, true)
  }

  #launchGroup(size: number): void {
    const shape = this.#level?.shape
    if (shape?.kind !== 'periodic') return
    const count = Math.min(size, shape.end - this.#groupLaunched, this.#left)
    this.#groupLeft = count
    this.#groupLaunched += count
    for (let at = 0; at < count; at++) this.#sendNext(this.#addLane(), 0)
    if (this.#groupLaunched >= shape.end) this.#left = 0
  }

  #groupStep(): void {
    this.#groupLeft--
    const shape = this.#level?.shape
    if (this.#groupLeft === 0 && shape?.kind === 'periodic') this.#launchGroup(shape.step)
  }

  async #openLanes(count: number): Promise<void> {
    this.#lanes = []
    this.#sequences = []
    this.#groupLaunched = 0
    for (let at = 0; at < count; at++) this.#addLane()
    await Promise.all(this.#lanes.map((lane) => lane.open()))
  }

  #addLane(): Lane {
    const lane = this.#makeLane(this.#lanes.length)
    this.#lanes.push(lane)
    return lane
  }

  #makeLane(index: number): Lane {
    const { protocol, target, expected, isDecoupled, isExporting } = this.#setup
    const keepsBodies = expected !== null || isExporting
    if (this.#connections === null) return new HttpLane(index, this, target, keepsBodies)
    return protocol === 'grpc'
      ? new GrpcUnaryLane(index, this, this.#connections, keepsBodies)
      : new GrpcStreamLane(index, this, this.#connections, keepsBodies, isDecoupled)
  }

  #mismatch(lane: Lane): string | null {
    const { expected, protocol } = this.#setup
    if (expected === null || lane.request === null) return null
    const outputs = expected[lane.request.stream]?.[lane.request.step]
    return outputs === undefined ? null : outputMismatch(protocol, lane.body, lane.bodyHeaderLength, outputs)
  }

  #export(lane: Lane): void {
    this.#recorder.export({
      timestampNs: wallNs(lane.sentMs),
      responseTimestampsNs: this.#responseTimes[lane.index] ?? [],
      sequenceId: lane.stamp?.id ?? 0,
      stream: lane.request?.stream ?? 0,
      step: lane.request?.step ?? 0,
      outputs: this.#responseOutputs[lane.index] ?? [],
    })
  }

  #outputsOf({ body, bodyHeaderLength }: Lane): string {
    if (body === null || body.length > maxExportedBytes) return '{}'
    try {
      const { outputs } = parseAnswer(this.#setup.protocol, body, bodyHeaderLength)
      // An output in shared memory has no bytes here.
      return exportedTensors(outputs.filter(({ bytes }) => bytes.length > 0))
    } catch {
      // Other code reports bad answers; the export only leaves them out.
      return '{}'
    }
  }
}

const wallNs = (ms: number): number => Math.round((performance.timeOrigin + ms) * 1e6)

function laneCountOf({ shape, sequences }: LoadLevel, isSequence: boolean): number {
  if (shape.kind === 'concurrency') return shape.lanes
  if (shape.kind === 'periodic') return 0
  return isSequence ? sequences : firstOpenLanes
}

function scheduleOf(shape: Exclude<LoadLevel['shape'], { kind: 'concurrency' | 'periodic' }>): Schedule {
  if (shape.kind === 'constant') return new ConstantSchedule(shape.ratePerSecond, shape.share, shape.shares)
  if (shape.kind === 'poisson') return new PoissonSchedule(shape.ratePerSecond, shape.seed)
  return new IntervalSchedule(shape.intervalsUs)
}

const beginOf = (shape: LoadLevel['shape'], nowMs: number, epochMs: number): number =>
  shape.kind === 'constant' ? beginOfTurns(shape, nowMs, epochMs) : nowMs
