import { InferenceRequest } from '../model/inference-request.ts'
import { elementCount } from '../tensor/shape.ts'
import { Tensor } from '../tensor/tensor.ts'
import type { SequenceControls } from './sequence-controls.ts'
import type { SequenceStates, SequenceStateValues } from './sequence-states.ts'

/** The request for an empty place of a batch: zeros in the shape of `sample`, not ready. Its answer is dropped. */
export function fillerRequest(
  sample: InferenceRequest,
  sampleInputs: readonly Tensor[],
  controls: SequenceControls,
  states: SequenceStates,
): InferenceRequest {
  const inputs = sampleInputs.map(({ name, dataType, shape, bytes }) => {
    const length = dataType === 'BYTES' ? 4 * elementCount(shape) : bytes.length
    return new Tensor(name, dataType, shape, new Uint8Array(length))
  })
  const filler = new InferenceRequest({
    modelName: sample.modelName,
    modelVersion: sample.modelVersion,
    inputs,
    sink: (response) => response.release(),
  })
  filler.batchSize = sample.batchSize
  controls.append(inputs, filler, false)
  states.append(inputs, null)
  return filler
}

/** Equal for requests whose inputs and states have equal shapes. */
export function shapeKey(request: InferenceRequest, states: SequenceStateValues | null): string {
  let key = ''
  for (const { name, shape } of request.inputs) key += `${name}[${shape.join()}]`
  // A request that starts its sequence again gets the initial states, so the old states do not matter.
  if (states !== null && !request.isSequenceStart) for (const { shape } of states.values()) key += `[${shape.join()}]`
  return key
}
