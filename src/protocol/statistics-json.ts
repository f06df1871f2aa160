// The answer of the statistics extension. Its nanoseconds may be too large for JSON.stringify to write exactly.

import type {
  ComputeStatistics,
  DurationStatistic,
  ModelStatistics,
  ResponseStatistics,
} from '../model/model-statistics.ts'

/** Others may be served between the steps: a server may have thousands of models. */
export function* encodeStatistics(models: readonly ModelStatistics[]): Generator<void, Buffer> {
  const texts: string[] = []
  let parts = 0
  for (const model of models) {
    texts.push(modelText(model))
    parts += 1 + (model.responseStats.size + model.batchStats.length) / partsOfModel
    if (parts < modelsPerStep) continue
    parts = 0
    yield
  }
  return Buffer.from(`{"model_stats":[${texts.join(',')}]}`)
}

const modelsPerStep = 64
/** So many responses or batch sizes cost as much as all else of a model. */
const partsOfModel = 4

function modelText(model: ModelStatistics): string {
  const { success, fail, queue, cacheHit, cacheMiss } = model.inferenceStats
  const responses = [...model.responseStats].map(([index, stats]) => `"${index}":${responseText(stats)}`)
  const batches = model.batchStats.map((batch) => `{"batch_size":${batch.batchSize},${computeText(batch)}}`)
  const memory = model.memoryUsage.map(
    ({ type, id, byteSize }) => `{"type":${JSON.stringify(type)},"id":${id},"byte_size":${byteSize}}`,
  )
  return (
    `{"name":${JSON.stringify(model.name)},"version":"${model.version}",` +
    `"last_inference":${model.lastInferenceMs},"inference_count":${model.inferenceCount},` +
    `"execution_count":${model.executionCount},"inference_stats":{"success":${duration(success)},` +
    `"fail":${duration(fail)},"queue":${duration(queue)},${computeText(model.inferenceStats)},` +
    `"cache_hit":${duration(cacheHit)},"cache_miss":${duration(cacheMiss)}},` +
    `"response_stats":{${responses.join(',')}},"batch_stats":[${batches.join(',')}],` +
    `"memory_usage":[${memory.join(',')}]}`
  )
}

const duration = ({ count, ns }: DurationStatistic): string => `{"count":${count},"ns":${ns}}`

const computeText = ({ computeInput, computeInfer, computeOutput }: ComputeStatistics): string =>
  `"compute_input":${duration(computeInput)},"compute_infer":${duration(computeInfer)},` +
  `"compute_output":${duration(computeOutput)}`

const responseText = (stats: ResponseStatistics): string =>
  `{"compute_infer":${duration(stats.computeInfer)},"compute_output":${duration(stats.computeOutput)},` +
  `"success":${duration(stats.success)},"fail":${duration(stats.fail)},` +
  `"empty_response":${duration(stats.emptyResponse)},"cancel":${duration(stats.cancel)}}`
