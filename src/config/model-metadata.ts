import { dataTypeOfConfig } from '../tensor/data-type.ts'
import type { Shape } from '../tensor/shape.ts'
import type { ModelConfig, ModelInput, ModelOutput } from './model-config.ts'

type TensorMetadata = { readonly name: string; readonly datatype: string; readonly shape: Shape }
export type ModelMetadata = {
  readonly name: string
  readonly versions: readonly string[]
  readonly platform: string
  readonly inputs: readonly TensorMetadata[]
  readonly outputs: readonly TensorMetadata[]
}

/** The description of a model for clients: the dims of the configuration, with the batch dimension in front. */
export function modelMetadata(config: ModelConfig, versions: readonly string[]): ModelMetadata {
  const tensor = ({ name, dataType, dims }: ModelInput | ModelOutput): TensorMetadata => ({
    name,
    datatype: dataTypeOfConfig(dataType) ?? '<invalid>',
    shape: config.maxBatchSize > 0 ? [-1, ...dims] : dims,
  })
  return {
    name: config.name,
    versions,
    platform: config.platform === '' ? config.backend : config.platform,
    inputs: config.input.map(tensor),
    outputs: config.output.map(tensor),
  }
}
