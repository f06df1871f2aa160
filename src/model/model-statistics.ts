// The statistics of one model version since it was loaded, as clients get them. Types only.

/** How often something happened, and its nanoseconds in all. */
export type DurationStatistic = { readonly count: number; readonly ns: bigint }

export type ComputeStatistics = {
  readonly computeInput: DurationStatistic
  readonly computeInfer: DurationStatistic
  readonly computeOutput: DurationStatistic
}

type BatchStatistics = ComputeStatistics & {
  /** The rows of such a batch. */
  readonly batchSize: number
}

/** Statistics of the responses with one index (first, second…) of a decoupled model. */
export type ResponseStatistics = {
  readonly computeInfer: DurationStatistic
  readonly computeOutput: DurationStatistic
  readonly success: DurationStatistic
  readonly fail: DurationStatistic
  readonly emptyResponse: DurationStatistic
  readonly cancel: DurationStatistic
}

export type ModelStatistics = {
  readonly name: string
  readonly version: string
  /** Milliseconds since 1970; 0 when there was no inference. */
  readonly lastInferenceMs: number
  /** Rows of the requests that succeeded; requests answered from the cache are not counted. */
  readonly inferenceCount: number
  /** The number of batches. */
  readonly executionCount: number
  readonly inferenceStats: ComputeStatistics & {
    readonly success: DurationStatistic
    readonly fail: DurationStatistic
    readonly queue: DurationStatistic
    readonly cacheHit: DurationStatistic
    readonly cacheMiss: DurationStatistic
  }
  /** By index, from '0'. */
  readonly responseStats: ReadonlyMap<string, ResponseStatistics>
  /** Smallest batch first. */
  readonly batchStats: readonly BatchStatistics[]
  readonly memoryUsage: readonly { readonly type: string; readonly id: number; readonly byteSize: bigint }[]
}
