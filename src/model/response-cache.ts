// The interface of a response cache. One cache is in memory (local-response-cache.ts), another in Redis.

import { createHash } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import { inSlices } from '../base/run-in-slices.ts'
import type { ModelFiles } from './backend.ts'
import type { InferenceRequest } from './inference-request.ts'
import type { Parameters } from './parameters.ts'
import type { InferenceResponse } from './inference-response.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { Tensor } from '../tensor/tensor.ts'

export type CachedAnswer = {
  readonly outputs: readonly Tensor[]
  readonly parameters: Parameters | null
}

/** One load of one version of a model. */
export type CachedModel = { readonly config: ModelConfig; readonly files: ModelFiles }

/** How long lookups and insertions took in all, for metrics. The callers of the cache add the times. */
export class CacheTimings {
  lookupNs = 0
  insertNs = 0
}

export interface ResponseCache {
  readonly timings: CacheTimings
  /** How many bytes the cache may hold and holds now; 0 where another server keeps the answers. */
  readonly maxBytes: number
  readonly byteSize: number
  readonly entryCount: number
  readonly lookupCount: number
  readonly hitCount: number
  readonly evictionCount: number

  /** What the keys of a model begin with. Two models that may answer differently have different prefixes. */
  prefixFor(model: CachedModel): string | Promise<string>
  /** A cache that asks another server returns a promise. The promise never rejects: a failure is a miss. */
  lookup(key: string): CachedAnswer | null | Promise<CachedAnswer | null>
  /**
   * Copies the outputs: their memory is reused once the client has its answer. A stored answer is not replaced. Returns why
   * the answer can never be kept; '': it is there, or may be another time.
   */
  insert(key: string, response: InferenceResponse): string
  /** Forgets the answers of a model that was unloaded. */
  dropPrefix(prefix: string): void
  close(): Promise<void>
}

/**
 * Two requests have one key when their content is equal: the inputs with name, type, shape and bytes in any order, the
 * requested outputs in their order, and the parameters, which a model can read.
 * Clients choose the bytes, so the hash must be one for which nobody can find two requests with the same key.
 */
export function cacheKey(prefix: string, request: InferenceRequest): string {
  const steps = hashInSteps(prefix, request)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Hashing more than this takes so long that others should be served meanwhile. */
const mostHashedAtOnce = 1024 * 1024

/** The same; large inputs are hashed in slices. The promise rejects when the request is cancelled meanwhile. */
export function cacheKeyInSlices(clock: Clock, prefix: string, request: InferenceRequest): string | Promise<string> {
  let bytes = 0
  for (const input of request.inputs) bytes += input.bytes.byteLength
  if (bytes <= mostHashedAtOnce) return cacheKey(prefix, request)
  return inSlices(clock, hashInSteps(prefix, request), () => !request.isCancelled)
}

function* hashInSteps(prefix: string, request: InferenceRequest): Generator<void, string> {
  const hash = createHash('sha256')
  const inputs = request.inputs.length < 2 ? request.inputs : request.inputs.toSorted(byName)
  const names = request.requestedOutputs
  const head = JSON.stringify([
    names,
    [...request.parameters].map(([name, value]) => JSON.stringify([name, typeof value, String(value)])).sort(),
    inputs.map(({ name, dataType, shape, bytes }) => [name, dataType, shape, bytes.byteLength]),
  ])
  // The head says how long everything is, so the bytes that follow cannot be read in two ways.
  hash.update(`${Buffer.byteLength(head)}:${head}`)
  for (const { bytes } of inputs) {
    for (let at = 0; at < bytes.byteLength; at += mostHashedAtOnce) {
      hash.update(bytes.subarray(at, at + mostHashedAtOnce))
      if (at + mostHashedAtOnce < bytes.byteLength) yield
    }
  }
  return prefix + hash.digest('base64url')
}

const byName = (a: Tensor, b: Tensor): number => (a.name < b.name ? -1 : 1)
