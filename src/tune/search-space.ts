// Decides from a model's configuration which settings can be tried, and notes which cannot.

import { availableParallelism } from 'node:os'
import type { SearchSpace } from './find-setting.ts'
import { instanceGroupsOf, settingOf } from './setting.ts'
import type { TuneOptions } from './tune-options.ts'

type JsonObject = Readonly<Record<string, unknown>>

export type TunePlan = {
  readonly space: SearchSpace
  /** Which fields are not tuned, and why. */
  readonly notes: readonly string[]
  /** For the load generator. */
  readonly perfArgs: readonly string[]
}

/** The model cannot be tuned in this way; the message says what to do instead. */
export class NotTunable extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'NotTunable'
  }
}

const delaysUs = [100, 500, 1000, 2000, 5000, 10_000, 20_000]
const instanceSteps = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]

export function planSearch(config: JsonObject, options: TuneOptions): TunePlan {
  refuse(config, options)
  const { maxBatchSize, instances } = settingOf(config)
  const notes: string[] = []
  const perfArgs: string[] = []
  let isBatchingTuned = maxBatchSize > 0
  if (isDecoupled(config)) perfArgs.push('--streaming')
  if (hasField(config, 'sequence_batching')) {
    notes.push('a sequence model: how its requests are batched follows from its sequences; only instances are tuned')
    isBatchingTuned = false
  } else if (maxBatchSize === 0) {
    notes.push('max_batch_size is 0, so the model takes no batches: only instances are tuned')
  }
  if (options.batchSize > Math.max(1, maxBatchSize)) {
    throw new NotTunable(`-b ${options.batchSize} is more than the model's max_batch_size of ${maxBatchSize}`)
  }
  const groups = instanceGroupsOf(config)
  const isCountTuned = groups.length <= 1
  if (!isCountTuned) notes.push(`there are ${groups.length} instance groups: their counts are left as they are`)
  if (hasField(config, 'response_cache')) notes.push('the response cache is off while measuring')
  const most = options.maxInstances > 0 ? options.maxInstances : Math.min(8, availableParallelism() * 2)
  return {
    space: {
      batchSizes: isBatchingTuned ? batchSizesFrom(maxBatchSize, options.maxBatchSize) : [],
      delaysUs: delaysUs.filter((us) => us <= Math.min(options.latencyMs * 500, 20_000)),
      instances: isCountTuned ? instanceSteps.filter((count) => count <= most) : [instances],
      concurrencies: doublings(1, options.maxConcurrency),
    },
    notes,
    perfArgs,
  }
}

function refuse(config: JsonObject, { model, protocol }: TuneOptions): void {
  const ensemble = config['ensemble_scheduling'] as { step?: readonly { model_name?: string }[] } | null | undefined
  if (ensemble !== null && ensemble !== undefined) {
    const steps = [...new Set((ensemble.step ?? []).map((step) => step.model_name ?? ''))].join(', ')
    throw new NotTunable(
      `'${model}' is an ensemble and has nothing to tune itself; tune the models of its steps: ${steps}`,
    )
  }
  if (isDecoupled(config) && protocol !== 'grpc') {
    throw new NotTunable(`'${model}' is decoupled: its requests are measured over gRPC streams; add -i grpc`)
  }
}

const hasField = (config: JsonObject, name: string): boolean => (config[name] ?? null) !== null

const isDecoupled = (config: JsonObject): boolean =>
  (config['model_transaction_policy'] as { decoupled?: boolean } | null | undefined)?.decoupled === true

/** Never below the present size, because a client may send that many rows in one request. */
const batchSizesFrom = (now: number, most: number): number[] => doublings(Math.max(4, now), Math.max(now, most))

export function doublings(from: number, to: number): number[] {
  const values: number[] = []
  for (let value = from; value <= to; value *= 2) values.push(value)
  // The end is included, also when it is not a power of two.
  if ((values.at(-1) ?? 0) < to) values.push(to)
  return values
}
