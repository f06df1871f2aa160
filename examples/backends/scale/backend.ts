// A backend for models that multiply: OUTPUT = INPUT × factor, where `factor` is a parameter of the model. Its models
// are folders with a config.pbtxt and an empty version folder.
//
//   galatea serve --backend-directory examples/backends --model-repository my-models

import { defineBackend, InferenceError, tensor } from 'galatea/model'

export default defineBackend({
  /** Once, before anything else: what all models of this backend need. */
  initialize(backend) {
    return { defaultFactor: Number(backend.settings.get('default-factor') ?? '1') }
  },

  /** Once per model: checks its configuration. What it returns is `model.state`. */
  modelInitialize(model) {
    const text = model.config.parameters.get('factor')?.stringValue
    const factor = text === undefined ? model.backend.state.defaultFactor : Number(text)
    if (!Number.isFinite(factor)) throw new InferenceError(`factor must be a number, got '${text}'`, 'INVALID_ARG')
    return { factor }
  },

  /** Counts what this one instance has done. */
  instanceInitialize() {
    return { executionCount: 0 }
  },

  execute(instance, requests) {
    instance.state.executionCount++
    const { factor } = instance.model.state
    return requests.map((request) => {
      const input = request.input('INPUT')
      return [
        tensor(
          'OUTPUT',
          'FP32',
          input.shape,
          input.asFloat32().map((value) => value * factor),
        ),
      ]
    })
  },

  instanceFinalize(instance) {
    instance.log.info('instance done', { executions: instance.state.executionCount })
  },

  /** Its models need not list their tensors. */
  modelAutoCompleteConfig() {
    return {
      maxBatchSize: 64,
      input: [{ name: 'INPUT', dataType: 'FP32', dims: [-1] }],
      output: [{ name: 'OUTPUT', dataType: 'FP32', dims: [-1] }],
    }
  },
})
