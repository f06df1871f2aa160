// Compares a configuration with the model in the file, for `galatea check` and for backends that know their tensors before
// they run (ONNX). The texts are Triton's; the `fix` of each problem says what to do.

import { shapeText, type Shape } from '../tensor/shape.ts'
import { problem, type ConfigProblem } from './config-problem.ts'
import type { ConfigDataType, ModelConfig, ModelInput, ModelOutput } from './model-config.ts'

export type TensorDescription = {
  readonly name: string
  readonly dataType: ConfigDataType
  /** The shape in the model, with the batch dimension; -1 is open. */
  readonly shape: Shape
}
export type FileSignature = {
  readonly inputs: readonly TensorDescription[]
  readonly outputs: readonly TensorDescription[]
}

export function* signatureProblems(config: ModelConfig, actual: FileSignature): Generator<ConfigProblem> {
  yield* inputCountProblems(config, actual)
  for (const [index, input] of config.input.entries()) {
    yield* tensorProblems(config, input, actual.inputs, 'input', `input[${index}]`)
  }
  for (const [index, { targetName, dataType }] of config.batchInput.entries()) {
    for (const [target, name] of targetName.entries()) {
      const path = `batch_input[${index}].target_name[${target}]`
      yield* typeProblems(config, { name, dataType }, actual.inputs, 'input', { name: path, dataType: path })
    }
  }
  for (const [index, output] of config.output.entries()) {
    yield* tensorProblems(config, output, actual.outputs, 'output', `output[${index}]`)
  }
}

/** Names of inputs that the server gives the model, not the client: sequence controls, states, batch inputs. */
function serverInputs(config: ModelConfig): string[] {
  const controls = (config.sequenceBatching?.controlInput ?? []).map((control) => control.name)
  const states = (config.sequenceBatching?.state ?? []).map((state) => state.inputName)
  return [...controls, ...states, ...config.batchInput.flatMap((batchInput) => batchInput.targetName)]
}

function* inputCountProblems(config: ModelConfig, actual: FileSignature): Generator<ConfigProblem> {
  const configured = new Set([...config.input.map((input) => input.name), ...serverInputs(config)])
  if (configured.size === actual.inputs.length || config.input.some((input) => input.optional)) return
  const missing = actual.inputs.map((input) => input.name).filter((name) => !configured.has(name))
  const fix = missing.length > 0 ? `the configuration lacks ${missing.map((name) => `'${name}'`).join(', ')}` : ''
  const message = `unable to load model '${config.name}', configuration expects ${configured.size} inputs, model provides ${actual.inputs.length}`
  yield problem('input', message, fix)
}

function* tensorProblems(
  config: ModelConfig,
  tensor: ModelInput | ModelOutput,
  candidates: readonly TensorDescription[],
  kind: 'input' | 'output',
  path: string,
): Generator<ConfigProblem> {
  yield* typeProblems(config, tensor, candidates, kind, { name: `${path}.name`, dataType: `${path}.data_type` })
  const actual = candidates.find((candidate) => candidate.name === tensor.name)
  if (actual !== undefined) yield* shapeProblems(config, tensor, actual, kind, path)
}

function* typeProblems(
  config: ModelConfig,
  tensor: Pick<ModelInput, 'name' | 'dataType'>,
  candidates: readonly TensorDescription[],
  kind: 'input' | 'output',
  paths: { readonly name: string; readonly dataType: string },
): Generator<ConfigProblem> {
  const actual = candidates.find((candidate) => candidate.name === tensor.name)
  if (actual === undefined) {
    const names = candidates.map((candidate) => candidate.name).join(', ')
    const message = `unexpected inference ${kind} '${tensor.name}', allowed ${kind}s are: ${names}`
    yield problem(paths.name, message, `rename it to one of ${names}`)
    return
  }
  if (actual.dataType !== tensor.dataType) {
    const message = `unable to load model '${config.name}', configuration expects datatype ${tensor.dataType} for ${kind} '${tensor.name}', model provides ${actual.dataType}`
    yield problem(paths.dataType, message, `write data_type: ${actual.dataType}`)
  }
}

function* shapeProblems(
  config: ModelConfig,
  tensor: ModelInput | ModelOutput,
  actual: TensorDescription,
  kind: 'input' | 'output',
  path: string,
): Generator<ConfigProblem> {
  if ('allowRaggedBatch' in tensor && tensor.allowRaggedBatch) {
    yield* raggedProblems(config, tensor, actual, path)
    return
  }
  // An output of `batch_output` is cut by the shape of an input, so its dims need not be the model's.
  if (kind === 'output' && config.batchOutput.some(({ targetName }) => targetName.includes(tensor.name))) return
  const which = `model '${config.name}', tensor '${tensor.name}'`
  const dims = tensor.reshape?.shape ?? tensor.dims
  const isBatching = config.maxBatchSize > 0
  if (isBatching && actual.shape[0] !== -1) {
    const message = `${which}: for the model to support batching the shape should have at least 1 dimension and the first dimension must be -1; but shape expected by the model is ${shapeText(actual.shape)}`
    const fix = `the model was exported with a fixed batch size: set max_batch_size: 0 and dims: ${dimsText(actual.shape)}, or export it with a dynamic first dimension`
    yield problem(`${path}.dims`, message, fix)
    return
  }
  const configured = isBatching ? [-1, ...dims] : dims
  if (areCompatible(configured, actual.shape)) return
  // `dims` may not be empty: a scalar is written as one element.
  if (!isBatching && actual.shape.length === 0 && configured.length === 1 && configured[0] === 1) return
  const said = isBatching
    ? `${configured.length} dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape ${shapeText(configured)})`
    : `${configured.length} dimensions (shape ${shapeText(configured)})`
  const message = `${which}: the model expects ${actual.shape.length} dimensions (shape ${shapeText(actual.shape)}) but the model configuration specifies ${said}`
  yield problem(`${path}.dims`, message, shapeFix(tensor.name, kind, dims, actual.shape, isBatching))
}

/** A ragged input: the model gets the elements of the whole batch in one row. */
function* raggedProblems(
  config: ModelConfig,
  { name }: ModelInput,
  actual: TensorDescription,
  path: string,
): Generator<ConfigProblem> {
  if (actual.shape.length === 1 && actual.shape[0] === -1) return
  const message = `unable to load model '${config.name}', configuration expects model input '${name}' to have shape [-1], but actual shape is ${shapeText(actual.shape)}`
  const fix =
    "an input with allow_ragged_batch is one long row of all requests' elements: export the model so, or remove allow_ragged_batch"
  yield problem(`${path}.dims`, message, fix)
}

const areCompatible = (a: Shape, b: Shape): boolean =>
  a.length === b.length && a.every((size, i) => size === -1 || b[i] === -1 || size === b[i])

const dimsText = (shape: Shape): string => `[ ${shape.join(', ')} ]`

/** Names the usual mistakes: swapped channels, a batch dimension too many. */
function shapeFix(name: string, kind: string, dims: Shape, actual: Shape, isBatching: boolean): string {
  const wanted = isBatching ? actual.slice(1) : actual
  const facts = `model ${kind} '${name}' expects ${shapeText(wanted)}, config says ${shapeText(dims)}`
  if (isBatching && areCompatible(dims, actual)) {
    return `${facts}: with max_batch_size > 0 leave the batch dimension out of dims`
  }
  if (!isBatching && actual[0] === -1 && areCompatible(dims, actual.slice(1))) {
    return `${facts}: set max_batch_size, or put the batch dimension into dims: ${dimsText(actual)}`
  }
  const order = swappedChannels(dims, wanted)
  return order === null
    ? `${facts}: write dims: ${dimsText(wanted)}`
    : `${facts}: ${order}, write dims: ${dimsText(wanted)}`
}

/** Images only: the same three sizes, with the channels at the other end. */
function swappedChannels(dims: Shape, wanted: Shape): string | null {
  if (dims.length < 3 || wanted.length !== dims.length) return null
  const lead = dims.slice(0, -3)
  const [a = 0, b = 0, c = 0] = dims.slice(-3)
  if (areCompatible([...lead, c, a, b], wanted))
    return 'the model takes channels first (NCHW), the config has them last'
  if (areCompatible([...lead, b, c, a], wanted))
    return 'the model takes channels last (NHWC), the config has them first'
  return null
}
