import { InferenceError } from './inference-error.ts'
import type { ParameterValue } from './infer-request.ts'
import type { OutputTensor } from './output-tensor.ts'

export class InferResult {
  readonly modelName: string
  readonly modelVersion: string
  readonly id: string
  readonly parameters: Readonly<Record<string, ParameterValue>>
  /** In the order of the answer. */
  readonly outputs: readonly OutputTensor[]

  constructor(
    head: Pick<InferResult, 'modelName' | 'modelVersion' | 'id' | 'parameters'>,
    outputs: readonly OutputTensor[],
  ) {
    this.modelName = head.modelName
    this.modelVersion = head.modelVersion
    this.id = head.id
    this.parameters = head.parameters
    this.outputs = outputs
  }

  /** The output of that name. Throws, naming those there are, when it is not in the answer. */
  output(name: string): OutputTensor {
    const found = this.outputs.find((output) => output.name === name)
    if (found !== undefined) return found
    const names = this.outputs.map((output) => `'${output.name}'`).join(', ')
    throw InferenceError.ofArgument(
      `no output '${name}' in the answer of '${this.modelName}'; it has ${names || 'none'}`,
    )
  }

  /** On a stream: whether this is the last response to its request. */
  get isFinal(): boolean {
    return this.parameters['triton_final_response'] !== false
  }
}
