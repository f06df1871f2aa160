// What the judge learns from one finished request.

import type { InferenceRequest } from '../model/inference-request.ts'
import type { RequestSample } from './judge/evidence.ts'
import type { RoutedRequest } from './routed-request.ts'

/** HOT: once per judged request. `nowNs` is the end of a request that no version counted. */
export function requestSample(
  routed: RoutedRequest,
  request: InferenceRequest,
  isError: boolean,
  nowNs: number,
): RequestSample {
  const { receivedNs, queueStartNs, computeStartNs, computeEndNs, batchSize } = request
  const endNs = request.endNs === 0 ? nowNs : request.endNs
  const queueNs = queueStartNs === 0 || computeStartNs === 0 ? 0 : computeStartNs - queueStartNs
  // A small share of the requests fills batches more slowly. That is not the model's doing.
  const delayUs = routed.version.config.dynamicBatching?.maxQueueDelayMicroseconds ?? 0n
  const excusedNs = Math.min(queueNs, Number(delayUs) * 1000)
  const computeNs = computeStartNs === 0 ? NaN : (computeEndNs === 0 ? endNs : computeEndNs) - computeStartNs
  const { answerCount, firstNs } = routed
  const streamedNs = endNs - firstNs
  return {
    isError,
    bucket: routed.bucket,
    latencyMs: (endNs - receivedNs - excusedNs) / 1e6,
    firstResponseMs: firstNs === 0 ? NaN : (firstNs - receivedNs - excusedNs) / 1e6,
    computeSecondsPerRow: computeNs / 1e9 / Math.max(1, batchSize),
    // Each answer of a streaming model is a token, or a few: the same number of them for both arms.
    tokensPerSecond: answerCount > 1 && streamedNs > 0 ? ((answerCount - 1) * 1e9) / streamedNs : NaN,
  }
}
