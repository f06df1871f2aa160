// Rules for inputs, outputs and batch inputs/outputs. They run after the backend has completed the configuration.

import { shapeText, type Shape } from '../tensor/shape.ts'
import { paddingProblems } from './batch-padding.ts'
import { problem, type ConfigProblem } from './config-problem.ts'
import { tensorRtPlatform } from './known-backends.ts'
import type { BatchInput, BatchOutput, ModelConfig, ModelInput, ModelOutput } from './model-config.ts'

export function* tensorProblems(config: ModelConfig): Generator<ConfigProblem> {
  yield* paddingProblems(config)
  for (const found of everyTensorProblem(config)) yield { ...found, message: `${found.message} for ${config.name}` }
}

/** Where a backend completes the configuration, Triton finds a batch input without a type before every other mistake of tensors. */
export function* untypedBatchInputs({ batchInput }: ModelConfig): Generator<ConfigProblem> {
  for (const [index, { dataType }] of batchInput.entries()) {
    if (dataType !== 'TYPE_INVALID') continue
    const fix = 'write data_type: TYPE_INT32 or TYPE_FP32'
    yield problem(`batch_input[${index}].data_type`, `unexpected batch input data type '${dataType}'`, fix)
  }
}

function* everyTensorProblem(config: ModelConfig): Generator<ConfigProblem> {
  for (const [index, input] of config.input.entries()) yield* inputProblems(config, input, `input[${index}]`)
  for (const [index, output] of config.output.entries()) yield* outputProblems(config, output, `output[${index}]`)
  for (const [index, batchInput] of config.batchInput.entries()) {
    yield* batchInputProblems(config, batchInput, `batch_input[${index}]`)
  }
  yield* targetNameProblems(config)
  yield* batchOutputProblems(config)
}

/** A batch input may not have the name of an input: the model would get two tensors of one name. */
function* targetNameProblems(config: ModelConfig): Generator<ConfigProblem> {
  const seen = new Set(config.input.map((input) => input.name))
  for (const [index, { targetName }] of config.batchInput.entries()) {
    const path = `batch_input[${index}]`
    for (const [target, name] of targetName.entries()) {
      const at = `${path}.target_name[${target}]`
      if (seen.has(name)) yield problem(at, `target input name '${name}' can only be specified once`, 'remove one')
      seen.add(name)
    }
  }
}

function* inputProblems(config: ModelConfig, input: ModelInput, path: string): Generator<ConfigProblem> {
  yield* shapeProblems(config, input, 'model input', path)
  if (input.format !== 'FORMAT_NONE' && input.dims.length !== 3) {
    const fix = `${input.format} describes an image: give 3 dims, or leave 'format' out`
    yield problem(`${path}.format`, 'model input NHWC/NCHW require 3 dims', fix)
  }
  yield* tensorRtOnlyProblems(config, input, path)
}

function* outputProblems(config: ModelConfig, output: ModelOutput, path: string): Generator<ConfigProblem> {
  yield* shapeProblems(config, output, 'model output', path)
  yield* tensorRtOnlyProblems(config, output, path)
}

function* tensorRtOnlyProblems(
  config: ModelConfig,
  tensor: ModelInput | ModelOutput,
  path: string,
): Generator<ConfigProblem> {
  if (config.platform === tensorRtPlatform) return
  if (tensor.isShapeTensor) {
    const message = 'shape tensors are only supported for TensorRT platform'
    yield problem(`${path}.is_shape_tensor`, message, "leave 'is_shape_tensor' out")
  }
  if (tensor.isNonLinearFormatIo) {
    const message = 'Non-linear IO format is only supported for the TensorRT platform'
    yield problem(`${path}.is_non_linear_format_io`, message, "leave 'is_non_linear_format_io' out")
  }
}

const dimensionRule = 'must be integer >= 1, or -1 to indicate a variable-size dimension'
const isDimension = (size: number): boolean => size >= 1 || size === -1

function* shapeProblems(
  config: ModelConfig,
  tensor: ModelInput | ModelOutput,
  kind: string,
  path: string,
): Generator<ConfigProblem> {
  if (tensor.name === '') {
    yield problem(path, `${kind} must specify 'name'`, 'give the tensor the name it has in the model')
  }
  const which = `${kind} '${tensor.name}'`
  if (tensor.dataType === 'TYPE_INVALID') {
    yield problem(path, `${which} must specify 'data_type'`, 'add for example data_type: TYPE_FP32')
  }
  if (tensor.dims.length === 0) {
    const without = config.maxBatchSize > 0 ? ' (without the batch dimension)' : ''
    yield problem(
      path,
      `${which} must specify 'dims'`,
      `add for example dims: [ 16 ]${without}; -1 stands for any size`,
    )
  }
  const bad = tensor.dims.findIndex((size) => !isDimension(size))
  if (bad >= 0) yield problem(`${path}.dims[${bad}]`, `${which} dimension ${dimensionRule}`, 'use -1 for any size')
  if (tensor.reshape !== null && tensor.dims.length > 0 && bad < 0) {
    yield* reshapeProblems(config, tensor.dims, tensor.reshape.shape, which, path)
  }
}

function* reshapeProblems(
  config: ModelConfig,
  dims: Shape,
  reshape: Shape,
  which: string,
  path: string,
): Generator<ConfigProblem> {
  const at = `${path}.reshape`
  if (reshape.length === 0 && config.maxBatchSize === 0) {
    const message = `${which} cannot have empty reshape for non-batching model as scalar tensors are not supported`
    yield problem(at, message, "set 'max_batch_size', or reshape to [ 1 ]")
    return
  }
  const bad = reshape.findIndex((size) => !isDimension(size))
  if (bad >= 0) {
    yield problem(`${at}.shape[${bad}]`, `${which} reshape dimensions ${dimensionRule}`, 'use -1 for any size')
    return
  }
  const fix = `both must hold the same number of elements: dims are ${shapeText(dims)}, reshape is ${shapeText(reshape)}`
  const parts = elementsBetweenWildcards(dims)
  const reshapeParts = elementsBetweenWildcards(reshape)
  // Triton compares whole sizes first, and any wildcard makes a size -1: one side without a wildcard differs in size.
  const isOpen = parts.length > 1
  if (isOpen && reshapeParts.length > 1 && parts.length !== reshapeParts.length) {
    yield problem(at, `${which} has different number of variable-size dimensions for dims and reshape`, fix)
  } else if (parts.length !== reshapeParts.length || parts.some((count, i) => count !== reshapeParts[i])) {
    yield problem(at, `${which} has different size for dims and reshape`, fix)
  }
}

/** [2,4,-1,6] → [8,6]: the products between open dimensions, which a reshape may not change. */
function elementsBetweenWildcards(shape: Shape): number[] {
  const counts = [1]
  for (const size of shape) {
    if (size === -1) counts.push(1)
    else counts.push((counts.pop() ?? 1) * size)
  }
  return counts
}

function* unknownSources(config: ModelConfig, sources: readonly string[], path: string): Generator<ConfigProblem> {
  for (const [index, name] of sources.entries()) {
    if (config.input.some((input) => input.name === name)) continue
    const fix = `use one of the model's inputs: ${config.input.map((input) => input.name).join(', ')}`
    yield problem(`${path}.source_input[${index}]`, `unknown source input name '${name}'`, fix)
  }
}

function* batchInputProblems(config: ModelConfig, batchInput: BatchInput, path: string): Generator<ConfigProblem> {
  if (batchInput.sourceInput.length !== 1) {
    const message = `batch input kind '${batchInput.kind}' expects 1 source input, got ${batchInput.sourceInput.length}`
    yield problem(path, message, 'name the one input it is computed from in source_input')
  }
  if (batchInput.dataType !== 'TYPE_INT32' && batchInput.dataType !== 'TYPE_FP32') {
    const message = 'batch input data type must be TYPE_INT32 or TYPE_FP32'
    yield problem(`${path}.data_type`, message, `it is ${batchInput.dataType} now`)
  }
  yield* unknownSources(config, batchInput.sourceInput, path)
}

function* batchOutputProblems(config: ModelConfig): Generator<ConfigProblem> {
  const seen = new Set<string>()
  for (const [index, batchOutput] of config.batchOutput.entries()) {
    const path = `batch_output[${index}]`
    yield* sourceCountProblems(batchOutput, path)
    yield* unknownSources(config, batchOutput.sourceInput, path)
    for (const [target, name] of batchOutput.targetName.entries()) {
      const at = `${path}.target_name[${target}]`
      if (!config.output.some((output) => output.name === name)) {
        const fix = `use one of the model's outputs: ${config.output.map((output) => output.name).join(', ')}`
        yield problem(at, `unknown target output name '${name}'`, fix)
      }
      if (seen.has(name)) yield problem(at, `target output name '${name}' can only be specified once`, 'remove one')
      seen.add(name)
    }
  }
}

function* sourceCountProblems(batchOutput: BatchOutput, path: string): Generator<ConfigProblem> {
  const count = batchOutput.sourceInput.length
  if (count === 1) return
  const message = `batch output kind '${batchOutput.kind}' expects 1 source input, got ${count}`
  yield problem(path, message, 'name the one input whose shape it follows in source_input')
}
