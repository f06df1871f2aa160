// What a ModelConfig says about inputs and outputs. It is computed once at load, so that a request only looks up values.

import { dataTypeOfConfig, elementBytes, type DataType } from '../tensor/data-type.ts'
import { elementCount, type Shape } from '../tensor/shape.ts'
import { readParameter } from './model-parameters.ts'
import type { ModelConfig, ModelInput, ModelOutput } from './model-config.ts'

export type InputSpec = {
  readonly name: string
  readonly index: number
  readonly dataType: DataType
  /** The shape that clients send, without the batch dimension; -1 is open. */
  readonly dims: Shape
  /** The shape that the model gets instead of `dims`; null when the configuration has no reshape. */
  readonly reshape: Shape | null
  readonly isOptional: boolean
  readonly allowsRagged: boolean
  /** Bytes of one row (of the whole tensor when the model does not batch); -1 when a dimension or the type leaves it open. */
  readonly rowBytes: number
  /** FP32 is taken where this says FP64. Estimators are described as FP64, and most clients have FP32 at hand. */
  readonly widensFloats: boolean
}

export type OutputSpec = {
  readonly name: string
  readonly index: number
  readonly dataType: DataType
  readonly dims: Shape
  readonly reshape: Shape | null
  /** Class names by index, from `label_filename`; empty when there is none. */
  readonly labels: readonly string[]
}

/** The backends whose models are described as FP64 because their libraries compute with it. */
const floatWideners: ReadonlySet<string> = new Set(['sklearn', 'lightgbm'])

export class ModelSignature {
  readonly modelName: string
  readonly maxBatchSize: number
  readonly isBatching: boolean
  readonly isDecoupled: boolean
  readonly inputs: readonly InputSpec[]
  readonly inputByName: ReadonlyMap<string, InputSpec>
  readonly requiredInputCount: number
  readonly outputs: readonly OutputSpec[]
  readonly outputByName: ReadonlyMap<string, OutputSpec>
  readonly hasReshape: boolean
  /** What the file of the model calls these inputs and outputs, where the configuration chose among several; '': it did not. */
  readonly chosenName: string

  constructor(config: ModelConfig, labels: ReadonlyMap<string, readonly string[]> = new Map()) {
    this.modelName = config.name
    this.maxBatchSize = config.maxBatchSize
    this.isBatching = config.maxBatchSize > 0
    this.isDecoupled = config.modelTransactionPolicy?.decoupled ?? false
    this.inputs = config.input.map((input, index) => inputSpec(input, index, floatWideners.has(config.backend)))
    // The first of two inputs of one name wins, as in Triton.
    this.inputByName = new Map(this.inputs.toReversed().map((input) => [input.name, input]))
    this.requiredInputCount = this.inputs.filter((input) => !input.isOptional).length
    this.outputs = config.output.map((output, index) => outputSpec(output, index, labels.get(output.name) ?? []))
    this.outputByName = new Map(this.outputs.toReversed().map((output) => [output.name, output]))
    this.chosenName = readParameter(config, 'TF_SIGNATURE_DEF') ?? ''
    this.hasReshape = [...this.inputs, ...this.outputs].some((tensor) => tensor.reshape !== null)
  }
}

const typeOf = (tensor: ModelInput | ModelOutput): DataType => dataTypeOfConfig(tensor.dataType) ?? 'BYTES'

function inputSpec(input: ModelInput, index: number, widensFloats: boolean): InputSpec {
  const dataType = typeOf(input)
  const rowElements = elementCount(input.dims)
  return {
    name: input.name,
    index,
    dataType,
    dims: input.dims,
    reshape: input.reshape?.shape ?? null,
    isOptional: input.optional,
    allowsRagged: input.allowRaggedBatch,
    rowBytes: dataType === 'BYTES' || rowElements < 0 ? -1 : rowElements * elementBytes[dataType],
    widensFloats: widensFloats && dataType === 'FP64',
  }
}

function outputSpec(output: ModelOutput, index: number, labels: readonly string[]): OutputSpec {
  return {
    name: output.name,
    index,
    dataType: typeOf(output),
    dims: output.dims,
    reshape: output.reshape?.shape ?? null,
    labels,
  }
}
