// What one version of a model has done since it was loaded, as clients are told. Types only.

/** How often, and nanoseconds in all. */
export type DurationStatistic = { readonly count: number; readonly ns: bigint }

export type ComputeStatistics = {
  readonly computeInput: DurationStatistic
  readonly computeInfer: DurationStatistic
  readonly computeOutput: DurationStatistic
}

type BatchStatistics = ComputeStatistics & {
  /** Rows. */
  readonly batchSize: number
}

/** Of the responses with one index (first, second…) of a decoupled model. */
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
  /** Milliseconds since 1970; 0 when there was none. */
  readonly lastInferenceMs: number
  /** Rows of the requests that succeeded, cached ones not counted. */
  readonly inferenceCount: number
  /** Batches. */
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
