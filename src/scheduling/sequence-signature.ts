import type { ModelConfig } from '../config/model-config.ts'
import { ModelSignature } from '../config/model-signature.ts'
import { configDataType } from '../tensor/data-type.ts'
import { SequenceControls } from './sequence-controls.ts'

/** The signature with controls and states, which only the Backend sees. Clients see the signature without them. */
export function executedSignature(config: ModelConfig): ModelSignature {
  const template = { reshape: null, isShapeTensor: false, isNonLinearFormatIo: false }
  const input = (name: string, dataType: string, dims: number[]): ModelConfig['input'][number] => ({
    ...template,
    name,
    dataType: dataType as ModelConfig['input'][number]['dataType'],
    dims,
    format: 'FORMAT_NONE',
    allowRaggedBatch: false,
    // The scheduler adds them to every request of a client; a warm-up sample may be without.
    optional: true,
  })
  const states = config.sequenceBatching?.state ?? []
  const listed = new Set(config.output.map(({ name }) => name))
  return new ModelSignature({
    ...config,
    input: [
      ...config.input,
      ...new SequenceControls(config).inputs.map(({ name, dataType }) => input(name, configDataType(dataType), [1])),
      ...states.map(({ inputName, dataType, dims }) => input(inputName, dataType, dims)),
    ],
    output: [
      ...config.output,
      ...states
        .filter(({ outputName }) => !listed.has(outputName))
        .map(({ outputName, dataType, dims }) => ({
          ...template,
          name: outputName,
          dataType,
          dims,
          labelFilename: '',
        })),
    ],
  })
}
