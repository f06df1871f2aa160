// What one version of a model has done so far, added up from the times stamped on its requests. Nothing here asks the
// clock or keeps a request.

import type { ExecutedBatch, InferenceRequest } from '../model/inference-request.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { ComputeStatistics, ModelStatistics, ResponseStatistics } from '../model/model-statistics.ts'
import { BucketCounts } from './bucket-counts.ts'
import { DurationTotal } from './duration-total.ts'
import { LatencyHistogram } from './latency-histogram.ts'
import { LatencySummaries } from './latency-summaries.ts'

export const failureReasons = ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'] as const
/** REJECTED by the scheduler; CANCELED by the client; BACKEND: it failed after its execution began. */
export type FailureReason = (typeof failureReasons)[number]

type StatisticsOptions = {
  /** True for a decoupled model whose backend reports on each response. */
  readonly hasResponseStatistics: boolean
  readonly hasSummaries?: boolean
  /** Bounds in milliseconds of the histogram of first responses; without them there is none. */
  readonly firstResponseBounds?: readonly number[] | null
  /** True for an ensemble: its steps do the work, and failures are theirs. */
  readonly isEnsemble?: boolean
  /** True for a model with a response cache. */
  readonly hasCache?: boolean
  /** False when nobody asks for the histograms of latencies. Then they stay empty. */
  readonly hasHistograms?: boolean
}

/** An endless stream must not fill the memory, nor the answer that tells of it: later responses are counted under the last index. */
const maxResponseIndex = 999

/** Batch sizes that are told apart: where a model takes millions of rows, clients choose the sizes. */
const mostBatchSizes = 1024

/** The size under which an execution counts: its own, or once there are many others the next power of two, as in histograms. */
export function countedSize(counted: ReadonlyMap<number, unknown>, batchSize: number): number {
  if (counted.size < mostBatchSizes || counted.has(batchSize)) return batchSize
  return 2 ** Math.ceil(Math.log2(Math.max(1, batchSize)))
}

export class Statistics {
  readonly success = new DurationTotal()
  readonly fail = new DurationTotal()
  readonly queue = new DurationTotal()
  readonly compute = new ComputeTotals()
  readonly cacheHit = new DurationTotal()
  readonly cacheMiss = new DurationTotal()
  readonly latencies = {
    request: new LatencyHistogram(),
    queue: new LatencyHistogram(),
    compute: new LatencyHistogram(),
  }
  /** Milliseconds from a request to its first response; null unless it was asked for. */
  readonly firstResponses: BucketCounts | null
  /** Null unless summaries were asked for. */
  readonly summaries: LatencySummaries | null
  readonly failures: Record<FailureReason, number> = { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 }
  readonly hasCache: boolean
  readonly #hasHistograms: boolean
  readonly #options: StatisticsOptions
  readonly #batches = new Map<number, ComputeTotals>()
  readonly #responses: ResponseTotals[] = []
  #inferenceCount = 0
  #executionCount = 0
  #lastInferenceNs = 0

  constructor(options: StatisticsOptions) {
    this.#options = options
    this.hasCache = options.hasCache === true
    this.#hasHistograms = options.hasHistograms !== false
    const { firstResponseBounds = null } = options
    this.firstResponses = firstResponseBounds === null ? null : new BucketCounts(firstResponseBounds)
    this.summaries = options.hasSummaries === true ? new LatencySummaries() : null
  }

  get inferenceCount(): number {
    return this.#inferenceCount
  }

  get executionCount(): number {
    return this.#executionCount
  }

  /** `request.endNs` is the time of this response; `previousNs` that of the one before it, 0 when it is the first. HOT. */
  recordResponse(request: InferenceRequest, response: InferenceResponse, previousNs: number): void {
    if (this.#options.hasResponseStatistics) this.#addResponse(request, response, previousNs)
    if (this.firstResponses !== null && request.responseCount === 0 && !response.isFlagOnly) {
      this.firstResponses.add(Math.floor((request.endNs - request.receivedNs) / 1e6))
    }
    if (!response.isFinal) return
    if (response.error !== null && !response.isAnswerOfModel) this.#addFailure(request, response)
    else this.#addSuccess(request)
  }

  /** A request that was refused before it was read. */
  countRejected(): void {
    this.fail.add(0)
    this.failures.REJECTED++
  }

  /** The requests of the batch have their times. `nowNs` stands for times that they have not reached. */
  recordExecution(batch: ExecutedBatch, nowNs: number): void {
    for (const request of batch.requests) {
      // The request ended before anything was executed for it: it was cancelled, or its Worker was gone.
      if (request.computeStartNs === 0) continue
      this.#executionCount++
      this.#noteInference(nowNs)
      const size = countedSize(this.#batches, batch.batchSize)
      let totals = this.#batches.get(size)
      if (totals === undefined) {
        totals = new ComputeTotals()
        this.#batches.set(size, totals)
      }
      totals.add(request, nowNs)
      return
    }
  }

  /** Executions by their rows. */
  *executionsBySize(): IterableIterator<[batchSize: number, count: number]> {
    for (const [size, totals] of this.#batches) yield [size, totals.infer.count]
  }

  /** `wallMs` and `nowNs` are one moment on both clocks. */
  snapshot(name: string, version: string, wallMs: number, nowNs: number): ModelStatistics {
    const last = this.#lastInferenceNs
    const sizes = [...this.#batches.keys()].sort((a, b) => a - b)
    return {
      name,
      version,
      lastInferenceMs: last === 0 ? 0 : Math.round(wallMs - (nowNs - last) / 1e6),
      inferenceCount: this.#inferenceCount,
      executionCount: this.#executionCount,
      inferenceStats: {
        success: this.success.snapshot(),
        fail: this.fail.snapshot(),
        queue: this.queue.snapshot(),
        ...this.compute.snapshot(),
        cacheHit: this.cacheHit.snapshot(),
        cacheMiss: this.cacheMiss.snapshot(),
      },
      responseStats: new Map(this.#responses.map((totals, index) => [String(index), totals.snapshot()])),
      batchStats: sizes.map((batchSize) => ({
        batchSize,
        ...(this.#batches.get(batchSize) as ComputeTotals).snapshot(),
      })),
      memoryUsage: [],
    }
  }

  #addSuccess(request: InferenceRequest): void {
    const { endNs, receivedNs, queueStartNs, computeStartNs } = request
    this.success.add(endNs - receivedNs)
    this.#noteInference(endNs)
    const queueNs = queueStartNs === 0 ? 0 : (computeStartNs === 0 ? endNs : computeStartNs) - queueStartNs
    this.queue.add(queueNs)
    if (this.#hasHistograms) this.#addLatencies(request, queueNs)
    if (this.summaries !== null) this.summaries.add(request, queueNs)
    if (request.isCacheHit) {
      this.cacheHit.add(request.cacheNs)
      return
    }
    if (request.cacheNs > 0) this.cacheMiss.add(request.cacheNs)
    this.#inferenceCount += Math.max(1, request.batchSize)
    this.compute.add(request, endNs)
  }

  #addLatencies(request: InferenceRequest, queueNs: number): void {
    const { endNs, computeStartNs, traceId } = request
    this.latencies.request.add(endNs - request.receivedNs, traceId, endNs)
    this.latencies.queue.add(queueNs, traceId, endNs)
    if (request.isCacheHit) return
    const computeNs = computeStartNs === 0 ? 0 : (request.computeEndNs || endNs) - computeStartNs
    this.latencies.compute.add(computeNs, traceId, endNs)
  }

  #addFailure(request: InferenceRequest, response: InferenceResponse): void {
    // It runs on another version.
    if (request.isLeaving) return
    this.fail.add(request.endNs - request.receivedNs)
    const reason = failureReason(request, response)
    // The model of a step counts the reason of its failure. For the ensemble the reason is OTHER.
    this.failures[this.#options.isEnsemble === true && reason !== 'CANCELED' ? 'OTHER' : reason]++
  }

  #addResponse(request: InferenceRequest, response: InferenceResponse, previousNs: number): void {
    const index = Math.min(request.responseCount, maxResponseIndex)
    let totals = this.#responses[index]
    if (totals === undefined) {
      totals = new ResponseTotals()
      this.#responses.push(totals)
    }
    totals.add(request, response, previousNs === 0 ? request.computeInputEndNs : previousNs)
  }

  #noteInference(ns: number): void {
    if (ns > this.#lastInferenceNs) this.#lastInferenceNs = ns
  }
}

function failureReason(request: InferenceRequest, response: InferenceResponse): FailureReason {
  if (response.error?.code === 'CANCELLED') return 'CANCELED'
  if (request.computeStartNs !== 0) return 'BACKEND'
  return response.error?.code === 'UNAVAILABLE' ? 'REJECTED' : 'OTHER'
}

class ComputeTotals {
  readonly input = new DurationTotal()
  readonly infer = new DurationTotal()
  readonly output = new DurationTotal()

  /** A time that was not set is taken from the next stage that has one. Then the stage has no length. */
  add(request: InferenceRequest, endNs: number): void {
    const outputEndNs = request.computeEndNs === 0 ? endNs : request.computeEndNs
    const inferEndNs = request.computeOutputStartNs === 0 ? outputEndNs : request.computeOutputStartNs
    const inputEndNs = request.computeInputEndNs === 0 ? inferEndNs : request.computeInputEndNs
    const startNs = request.computeStartNs === 0 ? inputEndNs : request.computeStartNs
    this.input.add(inputEndNs - startNs)
    this.infer.add(inferEndNs - inputEndNs)
    this.output.add(outputEndNs - inferEndNs)
  }

  snapshot(): ComputeStatistics {
    return {
      computeInput: this.input.snapshot(),
      computeInfer: this.infer.snapshot(),
      computeOutput: this.output.snapshot(),
    }
  }
}

class ResponseTotals {
  readonly infer = new DurationTotal()
  readonly output = new DurationTotal()
  readonly success = new DurationTotal()
  readonly fail = new DurationTotal()
  readonly empty = new DurationTotal()
  readonly cancel = new DurationTotal()

  add(request: InferenceRequest, response: InferenceResponse, startNs: number): void {
    const { endNs } = request
    const takenNs = endNs - startNs
    if (response.isFlagOnly) {
      this.empty.add(takenNs)
    } else if (response.error?.code === 'CANCELLED') {
      this.cancel.add(takenNs)
    } else {
      const outputStartNs = request.computeOutputStartNs === 0 ? endNs : request.computeOutputStartNs
      this.infer.add(outputStartNs - startNs)
      this.output.add(endNs - outputStartNs)
      ;(response.error === null ? this.success : this.fail).add(takenNs)
    }
  }

  snapshot(): ResponseStatistics {
    return {
      computeInfer: this.infer.snapshot(),
      computeOutput: this.output.snapshot(),
      success: this.success.snapshot(),
      fail: this.fail.snapshot(),
      emptyResponse: this.empty.snapshot(),
      cancel: this.cancel.snapshot(),
    }
  }
}
