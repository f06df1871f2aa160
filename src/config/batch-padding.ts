// Padding, beyond Triton: inputs of different length run together. Each input is filled up at its end, and outputs are cut
// back. A model asks for padding with its parameters; without them there is none.
//   pad_inputs            "ids, mask"       inputs to fill up; each has exactly one -1 in its dims
//   pad_value, pad_value.<input>            what to fill with; 0
//   pad_buckets, pad_buckets.<input>        "32, 64, 128": lengths to fill up to; without: to the longest of the batch
//   pad_outputs           "logits, h=mask"  outputs to cut back, to the length of the first padded input or the one named

import { dataTypeOfConfig, elementBytes, integerBounds, type DataType } from '../tensor/data-type.ts'
import { shapeText, type Shape } from '../tensor/shape.ts'
import { problem, type ConfigProblem } from './config-problem.ts'
import type { ModelConfig, ModelInput, ModelOutput } from './model-config.ts'
import { parameterRow, readInputParameter, readParameter } from './model-parameters.ts'

export type PaddedInput = {
  readonly name: string
  readonly dataType: DataType
  /** The dimension that is filled up, counted with the batch dimension. */
  readonly axis: number
  /** The bytes of one element. */
  readonly fill: Uint8Array
  /** Lengths to fill up to, ascending. Empty: the length of the longest input of the batch. */
  readonly buckets: readonly number[]
}

export type CutOutput = {
  readonly name: string
  readonly axis: number
  /** The output has the length of this padded input. */
  readonly input: string
}

export type BatchPadding = {
  readonly inputs: readonly PaddedInput[]
  readonly outputs: readonly CutOutput[]
}

const maxBuckets = 256
/** The most bytes of one input in a full batch: padding makes short requests cost as much as long ones. */
const maxPaddedBytes = 1 << 30

/** Null: the model asks for no padding. The configuration must be valid. */
export function batchPaddingOf(config: ModelConfig): BatchPadding | null {
  const names = namesOf(readParameter(config, 'pad_inputs'))
  if (names.length === 0) return null
  const inputs = names.map((name): PaddedInput => {
    const input = config.input.find((each) => each.name === name) as ModelInput
    const dataType = dataTypeOfConfig(input.dataType) as DataType
    const fill = elementOf(dataType, Number(readInputParameter(config, 'pad_value', name)?.text ?? '0')) as Uint8Array
    const buckets = namesOf(readInputParameter(config, 'pad_buckets', name)?.text ?? null).map(Number)
    return { name, dataType, axis: openAxis(input) + 1, fill, buckets }
  })
  const wanted = readParameter(config, 'pad_outputs')
  const first = names[0] as string
  const outputs = wanted === null ? outputsOfSameKind(config, first) : cutsOf(wanted, first).map(([name, input]) => ({ name, input, axis: openAxis(outputNamed(config, name)) + 1 })) // prettier-ignore
  return { inputs, outputs }
}

/** Without buckets all lengths up to this one run together. Longer inputs run together between two powers of two. */
const shortLength = 16

/**
 * Inputs whose lengths have the same class may run together. Without buckets a request is filled up to at most twice its
 * length, or to `shortLength`: else one long request would make a batch of short requests cost many times their bytes.
 */
export function lengthClass(buckets: readonly number[], length: number): number {
  if (buckets.length === 0) return length <= shortLength ? shortLength : 2 ** Math.ceil(Math.log2(length))
  for (const edge of buckets) if (edge >= length) return edge
  // An input longer than the last edge is not filled up, and runs only with inputs of its own length.
  return length
}

/** The length that an input of `length` is filled up to, in a batch whose longest input has `longest`. */
export const paddedLength = (buckets: readonly number[], length: number, longest: number): number =>
  buckets.length === 0 ? longest : lengthClass(buckets, length)

export function* paddingProblems(config: ModelConfig): Generator<ConfigProblem> {
  const keys = [...config.parameters.keys()].filter(
    (key) => key.startsWith('pad_') && parameterRow(config.backend, key) !== null,
  )
  if (keys.length === 0) return
  const say = (key: string, what: string): ConfigProblem =>
    problem(`parameters["${key}"]`, `parameter '${key}' of model '${config.name}' ${what}`)
  const names = namesOf(readParameter(config, 'pad_inputs'))
  const [stray = ''] = keys
  if (names.length === 0) {
    yield say(stray, "does nothing without 'pad_inputs', which names the inputs to fill up")
    return
  }
  if (config.maxBatchSize === 0 || config.dynamicBatching === null) {
    yield say('pad_inputs', "needs 'max_batch_size' above 0 and 'dynamic_batching { }': there is no batch to fill up")
  }
  for (const name of names) yield* inputProblems(config, name, say)
  for (const key of keys) {
    const [, owner] = /^pad_(?:value|buckets)\.(.*)$/.exec(key) ?? []
    if (owner !== undefined && !names.includes(owner)) {
      yield say(key, `is for input '${owner}', which 'pad_inputs' does not name (${names.join(', ')})`)
    }
  }
  yield* outputProblems(config, names, say)
}

type Say = (key: string, what: string) => ConfigProblem

function* inputProblems(config: ModelConfig, name: string, say: Say): Generator<ConfigProblem> {
  const input = config.input.find((each) => each.name === name)
  if (input === undefined) {
    const known = config.input.map((each) => each.name).join(', ')
    yield say('pad_inputs', `names '${name}', which is no input of the model (${known})`)
    return
  }
  const dataType = dataTypeOfConfig(input.dataType)
  const open = openCount(input)
  if (input.allowRaggedBatch)
    yield say('pad_inputs', `names '${name}', which has allow_ragged_batch: use one of the two`)
  if (open !== 1) {
    yield say('pad_inputs', `names '${name}', whose dims ${shapeText(modelDims(input))} must have exactly one -1`)
  }
  if (dataType === null || dataType === 'BYTES') {
    yield say('pad_inputs', `names '${name}' of ${input.dataType}: only numbers can be filled up`)
    return
  }
  const value = readInputParameter(config, 'pad_value', name)
  if (value !== null && (value.text.trim() === '' || elementOf(dataType, Number(value.text)) === null)) {
    yield say(value.key, `must be a number that ${input.dataType} holds, got '${value.text}'`)
  }
  const buckets = readInputParameter(config, 'pad_buckets', name)
  if (buckets === null) return
  const edges = namesOf(buckets.text).map(Number)
  const isAscending = edges.every((edge, i) => Number.isSafeInteger(edge) && edge > (edges[i - 1] ?? 0))
  if (edges.length === 0 || edges.length > maxBuckets || !isAscending) {
    yield say(buckets.key, `must be 1 to ${maxBuckets} ascending lengths such as '32, 64, 128', got '${buckets.text}'`)
    return
  }
  const elements = modelDims(input).reduce((product, size) => product * (size === -1 ? (edges.at(-1) ?? 1) : size), 1)
  const bytes = elements * elementBytes[dataType] * Math.max(1, config.maxBatchSize)
  if (bytes > maxPaddedBytes) {
    const room = `${maxPaddedBytes >> 20} MiB`
    yield say(buckets.key, `makes a full batch of '${name}' ${Math.ceil(bytes / 2 ** 20)} MiB long, more than ${room}`)
  }
}

function* outputProblems(config: ModelConfig, inputs: readonly string[], say: Say): Generator<ConfigProblem> {
  const wanted = readParameter(config, 'pad_outputs')
  if (wanted === null) return
  for (const [name, input] of cutsOf(wanted, inputs[0] as string)) {
    const output = config.output.find((each) => each.name === name)
    if (output === undefined) {
      const known = config.output.map((each) => each.name).join(', ')
      yield say('pad_outputs', `names '${name}', which is no output of the model (${known})`)
    } else if (output.dataType === 'TYPE_STRING') {
      yield say('pad_outputs', `names '${name}' of TYPE_STRING: only numbers can be cut back`)
    } else if (openCount(output) !== 1) {
      yield say('pad_outputs', `names '${name}', whose dims ${shapeText(modelDims(output))} must have exactly one -1`)
    }
    if (!inputs.includes(input))
      yield say('pad_outputs', `cuts '${name}' as '${input}', which 'pad_inputs' does not name`)
  }
}

const namesOf = (text: string | null): string[] =>
  (text ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')

/** `logits, hidden=mask` */
const cutsOf = (text: string, byDefault: string): [output: string, input: string][] =>
  namesOf(text).map((each) => {
    const at = each.lastIndexOf('=')
    return at < 0 ? [each, byDefault] : [each.slice(0, at).trim(), each.slice(at + 1).trim()]
  })

const modelDims = (tensor: ModelInput | ModelOutput): Shape => tensor.reshape?.shape ?? tensor.dims
const openCount = (tensor: ModelInput | ModelOutput): number => modelDims(tensor).filter((size) => size === -1).length
const openAxis = (tensor: ModelInput | ModelOutput): number => modelDims(tensor).indexOf(-1)

const outputNamed = (config: ModelConfig, name: string): ModelOutput =>
  config.output.find((output) => output.name === name) as ModelOutput

/** Without `pad_outputs` every output of numbers with one open dimension is cut back, if its size is the padded one. */
const outputsOfSameKind = (config: ModelConfig, input: string): CutOutput[] =>
  config.output
    .filter((output) => output.dataType !== 'TYPE_STRING' && openCount(output) === 1)
    .map((output) => ({ name: output.name, axis: openAxis(output) + 1, input }))

/** The bytes of one element; null when the type cannot hold the number. For FP16 only 0 is supported. */
function elementOf(dataType: DataType, value: number): Uint8Array | null {
  const view = new DataView(new ArrayBuffer(8))
  const bounds = integerBounds[dataType]
  const isWhole = Number.isSafeInteger(value)
  if (bounds !== null) {
    if (!isWhole || value < bounds[0] || value > bounds[1]) return null
    // The type takes the lower bytes, which come first.
    view.setInt32(0, value, true)
  } else if (dataType === 'INT64' || dataType === 'UINT64') {
    if (!isWhole || (dataType === 'UINT64' && value < 0)) return null
    view.setBigInt64(0, BigInt(value), true)
  } else if (Number.isNaN(value) || (dataType === 'FP16' && value !== 0)) return null
  else if (dataType === 'FP64') view.setFloat64(0, value, true)
  else if (dataType === 'FP32') view.setFloat32(0, value, true)
  else if (dataType === 'BF16') {
    const wide = new DataView(new ArrayBuffer(4))
    wide.setFloat32(0, value, true)
    view.setUint16(0, wide.getUint16(2, true), true)
  }
  return new Uint8Array(view.buffer, 0, elementBytes[dataType])
}
