// Records one window of one thread. Values go into arrays that exist already; a window is handed over as a whole.

import { bucketCount, bucketOf } from './latency-histogram.ts'
import type { Lane } from './lane.ts'

export type ExportedRequest = {
  /** Wall-clock nanoseconds since 1970. */
  readonly timestampNs: number
  readonly responseTimestampsNs: readonly number[]
  /** 0: the request belongs to no sequence. */
  readonly sequenceId: number
  readonly stream: number
  readonly step: number
  /** The outputs of each response as JSON text. */
  readonly outputs: readonly string[]
}

export type WindowRecord = {
  readonly durationMs: number
  /** Requests that were answered well in the window. */
  readonly count: number
  readonly failed: number
  readonly failures: readonly (readonly [text: string, count: number])[]
  readonly responses: number
  readonly sequences: number
  readonly sent: number
  /** How many requests were sent late. */
  readonly delayed: number
  /** Not sorted. Fewer than `count` when there was no room for all. */
  readonly latenciesUs: Float64Array
  readonly histogram: Uint32Array
  readonly sumLatencyUs: number
  readonly sumSquareLatencyUs: number
  /** The times from the first byte written to the last byte read, without the wait before the send. */
  readonly sumRequestUs: number
  readonly sumSendUs: number
  readonly sumReceiveUs: number
  /** How much of the window the thread was at work, 0 to 1. */
  readonly utilisation: number
  readonly exported: readonly ExportedRequest[]
}

const firstRoom = 64 * 1024
/** 32 MiB; beyond it percentiles come from the histogram. */
const mostRoom = 4 * 1024 * 1024
const maxFailureTexts = 8

export class WindowRecorder {
  #latenciesUs = new Float64Array(firstRoom)
  #kept = 0
  #histogram = new Uint32Array(bucketCount)
  readonly #failures = new Map<string, number>()
  #sinceMs = performance.now()
  #utilisation = performance.eventLoopUtilization()
  #count = 0
  #failed = 0
  #responses = 0
  #sequences = 0
  #sent = 0
  #delayed = 0
  #sumLatencyUs = 0
  #sumSquareUs = 0
  #sumRequestUs = 0
  #sumSendUs = 0
  #sumReceiveUs = 0
  #exported: ExportedRequest[] = []

  sent(isDelayed: boolean): void {
    this.#sent++
    if (isDelayed) this.#delayed++
  }

  // HOT: once per request; allocates only when the array doubles.
  done(lane: Lane, endMs: number, isSequenceEnd: boolean): void {
    const latencyUs = (lane.firstResponseMs - lane.intendedMs) * 1000
    if (this.#kept < this.#latenciesUs.length || this.#grow()) this.#latenciesUs[this.#kept++] = latencyUs
    const bucket = bucketOf(latencyUs)
    this.#histogram[bucket] = (this.#histogram[bucket] as number) + 1
    this.#count++
    if (isSequenceEnd) this.#sequences++
    this.#sumLatencyUs += latencyUs
    this.#sumSquareUs += latencyUs * latencyUs
    this.#sumRequestUs += (endMs - lane.sentMs) * 1000
    this.#sumSendUs += (lane.sendEndMs - lane.sentMs) * 1000
    this.#sumReceiveUs += (endMs - lane.firstByteMs) * 1000
  }

  responded(): void {
    this.#responses++
  }

  failed(text: string): void {
    this.#failed++
    const known = this.#failures.get(text)
    if (known !== undefined || this.#failures.size < maxFailureTexts) this.#failures.set(text, (known ?? 0) + 1)
  }

  export(request: ExportedRequest): void {
    this.#exported.push(request)
  }

  /** Returns the window up to now and begins the next one. */
  take(): WindowRecord {
    const nowMs = performance.now()
    const record: WindowRecord = {
      durationMs: nowMs - this.#sinceMs,
      count: this.#count,
      failed: this.#failed,
      failures: [...this.#failures],
      responses: this.#responses,
      sequences: this.#sequences,
      sent: this.#sent,
      delayed: this.#delayed,
      latenciesUs: this.#latenciesUs.slice(0, this.#kept),
      histogram: this.#histogram,
      sumLatencyUs: this.#sumLatencyUs,
      sumSquareLatencyUs: this.#sumSquareUs,
      sumRequestUs: this.#sumRequestUs,
      sumSendUs: this.#sumSendUs,
      sumReceiveUs: this.#sumReceiveUs,
      utilisation: performance.eventLoopUtilization(this.#utilisation).utilization,
      exported: this.#exported,
    }
    this.#histogram = new Uint32Array(bucketCount)
    this.#failures.clear()
    this.#exported = []
    this.#kept = 0
    this.#count = this.#failed = this.#responses = this.#sequences = this.#sent = this.#delayed = 0
    this.#sumLatencyUs = this.#sumSquareUs = this.#sumRequestUs = this.#sumSendUs = this.#sumReceiveUs = 0
    this.#sinceMs = nowMs
    this.#utilisation = performance.eventLoopUtilization()
    return record
  }

  #grow(): boolean {
    if (this.#latenciesUs.length >= mostRoom) return false
    const larger = new Float64Array(this.#latenciesUs.length * 2)
    larger.set(this.#latenciesUs)
    this.#latenciesUs = larger
    return true
  }
}
