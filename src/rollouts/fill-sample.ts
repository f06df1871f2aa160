// What the judge learns from one finished request.

import type { InferenceRequest } from '../model/inference-request.ts'
import type { RequestSample } from './judge/evidence.ts'
import type { RoutedRequest } from './routed-request.ts'

/** HOT: once per judged request. Fills `sample`, which serves all requests one after the other. */
export function fillSample(
  sample: Mutable<RequestSample>,
  routed: RoutedRequest,
  request: InferenceRequest,
  isError: boolean,
  endNs: number,
): void {
  const { receivedNs, queueStartNs, computeStartNs, computeEndNs, batchSize } = request
  const queueNs = queueStartNs === 0 || computeStartNs === 0 ? 0 : computeStartNs - queueStartNs
  // A small share of the requests fills batches more slowly. That is not the model's doing.
  const batching = routed.version.config.dynamicBatching
  const excusedNs = batching === null ? 0 : Math.min(queueNs, Number(batching.maxQueueDelayMicroseconds) * 1000)
  const computeNs = computeStartNs === 0 ? NaN : (computeEndNs === 0 ? endNs : computeEndNs) - computeStartNs
  const { answerCount, firstNs } = routed
  const streamedNs = endNs - firstNs
  sample.isError = isError
  sample.bucket = routed.bucket
  sample.latencyMs = (endNs - receivedNs - excusedNs) / 1e6
  sample.firstResponseMs = firstNs === 0 ? NaN : (firstNs - receivedNs - excusedNs) / 1e6
  sample.computeSecondsPerRow = computeNs / 1e9 / Math.max(1, batchSize)
  // Each answer of a streaming model is a token, or a few: the same number of them for both arms.
  sample.tokensPerSecond = answerCount > 1 && streamedNs > 0 ? ((answerCount - 1) * 1e9) / streamedNs : NaN
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** NaN keeps the fields numbers with a fraction from the first one on. */
export const emptySample = (): Mutable<RequestSample> => ({
  isError: false,
  bucket: null,
  latencyMs: NaN,
  firstResponseMs: NaN,
  computeSecondsPerRow: NaN,
  tokensPerSecond: NaN,
})
