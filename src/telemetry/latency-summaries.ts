import type { InferenceRequest } from '../model/inference-request.ts'
import { QuantileWindow } from './quantile-window.ts'

/** The count and the sum in microseconds of all durations, and the quantiles of the last minute. */
class LatencySummary {
  readonly window = new QuantileWindow()
  count = 0
  sumUs = 0

  add(durationNs: number, nowNs: number): void {
    const us = durationNs > 0 ? Math.floor(durationNs / 1000) : 0
    this.count++
    this.sumUs += us
    this.window.add(us, nowNs)
  }
}

/** `--metrics-config summary_latencies=true`, for one model version. */
export class LatencySummaries {
  readonly request = new LatencySummary()
  readonly queue = new LatencySummary()
  readonly computeInput = new LatencySummary()
  readonly computeInfer = new LatencySummary()
  readonly computeOutput = new LatencySummary()
  readonly cacheHit = new LatencySummary()
  readonly cacheMiss = new LatencySummary()

  /** Adds the times of a request that succeeded. */
  add(request: InferenceRequest, queueNs: number): void {
    const { endNs } = request
    this.request.add(endNs - request.receivedNs, endNs)
    this.queue.add(queueNs, endNs)
    if (request.isCacheHit) {
      this.cacheHit.add(request.cacheNs, endNs)
      return
    }
    if (request.cacheNs > 0) this.cacheMiss.add(request.cacheNs, endNs)
    const { computeStartNs, computeInputEndNs, computeOutputStartNs, computeEndNs } = request
    this.computeInput.add(computeInputEndNs - computeStartNs, endNs)
    this.computeInfer.add(computeOutputStartNs - computeInputEndNs, endNs)
    this.computeOutput.add(computeEndNs - computeOutputStartNs, endNs)
  }
}
