// The statistics of one model version since it was loaded, as clients get them. Types only.

/** How often something happened, and its nanoseconds in all. */
export type DurationStatistic = { readonly count: number; readonly ns: bigint }

type Durations<Name extends string> = Readonly<Record<Name, DurationStatistic>>

export type ComputeStatistics = Durations<'computeInput' | 'computeInfer' | 'computeOutput'>

type BatchStatistics = ComputeStatistics & {
  /** The rows of such a batch. */
  readonly batchSize: number
}

/** Statistics of the responses with one index (first, second…) of a decoupled model. */
export type ResponseStatistics = Durations<
  'computeInfer' | 'computeOutput' | 'success' | 'fail' | 'emptyResponse' | 'cancel'
>

export type ModelStatistics = {
  readonly name: string
  readonly version: string
  /** Milliseconds since 1970; 0 when there was no inference. */
  readonly lastInferenceMs: number
  /** Rows of the requests that succeeded; requests answered from the cache are not counted. */
  readonly inferenceCount: number
  /** The number of batches. */
  readonly executionCount: number
  readonly inferenceStats: ComputeStatistics & Durations<'success' | 'fail' | 'queue' | 'cacheHit' | 'cacheMiss'>
  /** By index, from '0'. */
  readonly responseStats: ReadonlyMap<string, ResponseStatistics>
  /** Smallest batch first. */
  readonly batchStats: readonly BatchStatistics[]
  readonly memoryUsage: readonly { readonly type: string; readonly id: number; readonly byteSize: bigint }[]
}
