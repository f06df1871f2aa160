import type { ModelStatistics } from '../../model/model-statistics.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'

/** ModelStatisticsResponse. Names and shapes are the schema's already, but for the time of the last inference. */
export function statisticsMessage(all: readonly ModelStatistics[]): MessageValue {
  return {
    modelStats: all.map((one) => ({
      ...one,
      lastInference: one.lastInferenceMs,
    })),
  }
}
