// Numbers of a configuration that decide how much the server makes when it loads the model. A load may come from the network,
// so none of these numbers may end the process.

import { dataTypeOfConfig, elementBytes } from '../tensor/data-type.ts'
import { elementCount } from '../tensor/shape.ts'
import { problem, type ConfigProblem } from './config-problem.ts'
import type { ModelConfig } from './model-config.ts'

/** Of all groups together, on all devices. */
const mostInstances = 1024
/** Places for sequences, of all instances together. */
const mostSlots = 2 ** 20
const mostStateBytes = 2 ** 31
const mostWarmUpRows = 65_536
/** Of all samples: executions on one instance, the rows of all of them, and the bytes that are made for them. */
const mostWarmUpRuns = 10_000
const mostWarmUpRowsTogether = 1_000_000
const mostWarmUpBytes = 2 ** 31

/** The groups are normalised. */
export function* amountProblems(config: ModelConfig): Generator<ConfigProblem> {
  const { name, instanceGroup, sequenceBatching } = config
  const instances = instanceGroup.reduce((sum, { count, gpus }) => sum + count * Math.max(1, gpus.length), 0)
  if (instances > mostInstances) {
    const message = `instance groups of model ${name} ask for ${instances} instances, the most are ${mostInstances}`
    yield problem('instance_group', message, "lower 'count'")
  }
  if (sequenceBatching !== null) {
    const { oldest } = sequenceBatching
    const slots = (oldest === null ? Math.max(1, config.maxBatchSize) : oldest.maxCandidateSequences) * instances
    if (slots > mostSlots) {
      const what = oldest === null ? 'max_batch_size' : 'max_candidate_sequences'
      const message = `'${what}' × instances of model ${name} make ${slots} places for sequences, the most are ${mostSlots}`
      yield problem('sequence_batching', message, `lower '${what}'`)
    }
    for (const [index, state] of sequenceBatching.state.entries()) {
      const dims = (state.initialState[0]?.dims ?? state.dims).map((size) => (size < 0 ? 1 : size))
      const bytes = elementCount(dims) * elementBytesOf(state.dataType)
      if (bytes <= mostStateBytes) continue
      const message = `state '${state.inputName}' of model ${name} begins with ${bytes} bytes, the most are ${mostStateBytes}`
      yield problem(`sequence_batching.state[${index}].dims`, message)
    }
  }
  yield* warmUpProblems(config)
}

function* warmUpProblems({ name, modelWarmup }: ModelConfig): Generator<ConfigProblem> {
  let [runs, rows, bytes] = [0, 0, 0]
  for (const [index, { name: sample, batchSize, count, inputs }] of modelWarmup.entries()) {
    runs += Math.max(1, count)
    rows += Math.max(1, count) * batchSize
    const rowBytes = [...inputs.values()].reduce((sum, { dims, dataType }) => sum + Math.max(0, elementCount(dims)) * elementBytesOf(dataType), 0) // prettier-ignore
    bytes += rowBytes
    if (batchSize > mostWarmUpRows) {
      const message = `warm-up sample '${sample}' of model ${name} has batch size ${batchSize}, the most is ${mostWarmUpRows}`
      yield problem(`model_warmup[${index}].batch_size`, message)
    } else if (rowBytes * batchSize > mostWarmUpBytes) {
      const message = `warm-up sample '${sample}' of model ${name} has ${rowBytes * batchSize} bytes, the most are ${mostWarmUpBytes}`
      yield problem(`model_warmup[${index}].inputs`, message)
    }
  }
  const sums = [
    ['executions', runs, mostWarmUpRuns],
    ['rows', rows, mostWarmUpRowsTogether],
    ['bytes', bytes, mostWarmUpBytes],
  ] as const
  for (const [what, sum, most] of sums) {
    if (sum <= most) continue
    const message = `warm-up samples of model ${name} have ${sum} ${what} together, the most are ${most}`
    yield problem('model_warmup', message, "lower 'count', or leave samples out")
  }
}

function elementBytesOf(configType: string): number {
  const dataType = dataTypeOfConfig(configType)
  return dataType === null || dataType === 'BYTES' ? 4 : elementBytes[dataType]
}
