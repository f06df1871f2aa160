// Implicit state: tensors that a model returns for one request of a sequence and gets back with the next request.

import { ServerError } from '../base/server-error.ts'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { ModelConfig, ModelSequenceBatchingState } from '../config/model-config.ts'
import { dataTypeOfConfig, elementBytes } from '../tensor/data-type.ts'
import { elementCount, type Shape } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'

/** The states of one sequence, by the name of the model's input. */
export type SequenceStateValues = Map<string, Tensor>

export class SequenceStates {
  readonly #initial: readonly Tensor[]
  /** The model's output → the model's input. */
  readonly #inputByOutput: ReadonlyMap<string, string>
  /** States that the configuration also lists as outputs: clients may request these. */
  readonly #visible: ReadonlySet<string>

  /** `files` holds the content of each `data_file`, by the state's input name. Throws when a file does not fit. */
  constructor(config: ModelConfig, files: ReadonlyMap<string, Uint8Array>) {
    const states = config.sequenceBatching?.state ?? []
    this.#initial = states.map((state) => initialTensor(state, config.maxBatchSize > 0, files.get(state.inputName)))
    this.#inputByOutput = new Map(states.map(({ outputName, inputName }) => [outputName, inputName]))
    this.#visible = new Set(config.output.map(({ name }) => name).filter((name) => this.#inputByOutput.has(name)))
  }

  get isEmpty(): boolean {
    return this.#initial.length === 0
  }

  begin(): SequenceStateValues {
    return new Map(this.#initial.map((tensor) => [tensor.name, tensor]))
  }

  append(inputs: Tensor[], values: SequenceStateValues | null): void {
    for (const tensor of this.#initial) inputs.push(values?.get(tensor.name) ?? tensor)
  }

  /** The outputs to request from the model: those of the client and the states. Empty: all outputs. */
  withStates(requested: readonly string[]): readonly string[] {
    if (requested.length === 0) return requested
    return [...new Set([...requested, ...this.#inputByOutput.keys()])]
  }

  /** Keeps the states among `outputs`. 1 copy. */
  keep(outputs: readonly Tensor[], values: SequenceStateValues): void {
    for (const { name, dataType, shape, bytes } of outputs) {
      const input = this.#inputByOutput.get(name)
      if (input !== undefined) values.set(input, new Tensor(input, dataType, shape, bytes.slice()))
    }
  }

  /** Copies the states and returns the answer with the client's outputs. 1 copy: the answer's memory is released. */
  take(response: InferenceResponse, values: SequenceStateValues, requested: readonly string[]): InferenceResponse {
    const { outputs } = response
    if (response.error !== null || !outputs.some(({ name }) => this.#inputByOutput.has(name))) return response
    this.keep(outputs, values)
    const isShown = ({ name }: Tensor): boolean =>
      !this.#inputByOutput.has(name) ||
      (this.#visible.has(name) && (requested.length === 0 || requested.includes(name)))
    return response.withOutputs(outputs.filter(isShown))
  }
}

/** Without an `initial_state` a sequence begins with zeros, and an open dimension with 1. */
function initialTensor(state: ModelSequenceBatchingState, isBatching: boolean, file: Uint8Array | undefined): Tensor {
  const dataType = dataTypeOfConfig(state.dataType) ?? 'BYTES'
  const [initial] = state.initialState
  const dims: Shape = (initial?.dims ?? state.dims).map((size) => (size < 0 ? 1 : size))
  const shape = isBatching ? [1, ...dims] : dims
  // An empty string is four bytes of length, all zero.
  const bytes = elementCount(dims) * (dataType === 'BYTES' ? 4 : elementBytes[dataType])
  if (file === undefined) return new Tensor(state.inputName, dataType, shape, new Uint8Array(bytes))
  if (dataType !== 'BYTES' && file.length !== bytes) {
    throw new ServerError(
      'INVALID_ARG',
      `initial_state file '${initial?.dataFile ?? ''}' of state input '${state.inputName}' has ${file.length} bytes, expected ${bytes}`,
    )
  }
  return new Tensor(state.inputName, dataType, shape, file)
}
