// config.pbtxt of a model that came as a TorchServe archive.

import type { TorchArchive, TorchServing } from '../../model/torch-archive.ts'

const torchServingDefaults: TorchServing = {
  batchSize: 1,
  maxBatchDelayMs: 100,
  workers: 1,
  jobQueueSize: 100,
  versions: [],
  decodesInput: true,
  serviceEnvelope: '',
  handler: '',
  responseTimeoutSecs: 120,
  startupTimeoutSecs: 120,
  maxWorkers: 0,
}

/**
 * As TorchServe: the call that registers comes before model-config.yaml, and that before the defaults of the server. The number of
 * workers is the exception: what model-config.yaml says of them comes first. `settings` is what the server knows of this version.
 */
export function servingOf(
  { config }: Pick<TorchArchive, 'config'>,
  given: Partial<TorchServing>,
  defaults: Partial<TorchServing>,
  settings: Readonly<Record<string, unknown>> = {},
): TorchServing {
  const own = numbersOf(config)
  const { workers } = own
  const first = workers === undefined ? {} : { workers }
  return { ...torchServingDefaults, ...defaults, ...numbersOf(settings), ...own, ...given, ...first }
}

function numbersOf(config: Readonly<Record<string, unknown>>): Partial<TorchServing> {
  const found: Record<string, number> = {}
  for (const [field, key, least] of numbers) {
    const value = config[key]
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value < 2 ** 31)
      found[field] = value
  }
  return found
}

/** What model-config.yaml says, and the least that makes sense. */
const numbers: readonly (readonly [field: keyof TorchServing, key: string, least: number])[] = [
  ['batchSize', 'batchSize', 1],
  ['maxBatchDelayMs', 'maxBatchDelay', 0],
  ['workers', 'minWorkers', 0],
  ['maxWorkers', 'maxWorkers', 0],
  ['jobQueueSize', 'jobQueueSize', 1],
  ['responseTimeoutSecs', 'responseTimeout', 1],
  ['startupTimeoutSecs', 'startupTimeout', 1],
]

export function torchConfigText(archive: TorchArchive, serving: TorchServing): string {
  const { batchSize, maxBatchDelayMs, workers, jobQueueSize, versions } = serving
  const queue = `default_queue_policy { max_queue_size: ${jobQueueSize} }`
  const delay = batchSize > 1 ? `max_queue_delay_microseconds: ${maxBatchDelayMs * 1000} ` : ''
  // Longer limits than the parameter takes are 25 days.
  const executionMs = Math.min(serving.responseTimeoutSecs * 1000, 2 ** 31 - 1)
  const lines = [
    'backend: "torchserve"',
    `max_batch_size: ${batchSize}`,
    'input { name: "data" data_type: TYPE_STRING dims: 1 }',
    'input { name: "request" data_type: TYPE_STRING dims: 1 optional: true }',
    'output { name: "prediction" data_type: TYPE_STRING dims: 1 }',
    'output { name: "response" data_type: TYPE_STRING dims: 1 }',
    `instance_group { count: ${Math.max(workers, 1)}${kindOf(archive)} }`,
    `dynamic_batching { ${delay}${queue} }`,
    ...(archive.answersInPieces ? ['model_transaction_policy { decoupled: true }'] : []),
    ...(versions.length === 0 ? [] : [`version_policy { specific { versions: [ ${versions.join(', ')} ] } }`]),
    ...(executionMs === 0 ? [] : [`parameters { key: "max_execution_ms" value { string_value: "${executionMs}" } }`]),
  ]
  return `${lines.join('\n')}\n`
}

/** As TorchServe: a model for GPUs runs on the CPU of a machine that has none. */
const kindOf = ({ config }: TorchArchive): string => (config['deviceType'] === 'cpu' ? ' kind: KIND_CPU' : '')
