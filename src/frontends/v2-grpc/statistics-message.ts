import type { ModelStatistics } from '../../model/model-statistics.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'

/** ModelStatisticsResponse. All names and shapes equal the schema, except the time of the last inference. */
export function statisticsMessage(all: readonly ModelStatistics[]): MessageValue {
  return {
    modelStats: all.map((one) => ({
      ...one,
      lastInference: one.lastInferenceMs,
    })),
  }
}
