// The configuration of a model for Triton's own server in a host. What Galatea does itself must not happen a second time.

import { ServerError } from '../../base/server-error.ts'
import { configMessage, type ModelConfig } from '../../config/model-config.ts'

type Reshaped = ModelConfig['input'][number] | ModelConfig['output'][number]

/** Requests come with the shapes that the model itself has. */
const asModelSees = <T extends Reshaped>(tensor: T): T =>
  tensor.reshape === null ? tensor : { ...tensor, dims: tensor.reshape.shape, reshape: null }

/** `isDraft`: only to be completed. Throws ServerError for a model whose scheduler cannot be Galatea's alone. */
export function innerConfig(config: ModelConfig, version: string, isDraft: boolean): ModelConfig {
  if (config.sequenceBatching !== null) {
    throw new ServerError(
      'UNSUPPORTED',
      `model '${config.name}' has sequence_batching, which is not possible with engine=tritonserver: ` +
        `Triton's server would schedule the sequences a second time`,
    )
  }
  return {
    ...config,
    versionPolicy: configMessage('ModelVersionPolicy', {
      specific: configMessage('ModelVersionPolicy.Specific', { versions: [Number(version)] }),
    }),
    // Requests of one batch arrive together, and Triton's server joins them again.
    dynamicBatching: config.dynamicBatching === null ? null : configMessage('ModelDynamicBatching'),
    input: isDraft ? config.input : config.input.map(asModelSees),
    output: isDraft ? config.output : config.output.map(asModelSees),
    instanceGroup: config.instanceGroup.map((group) => ({ ...group, rateLimiter: null })),
    modelWarmup: [],
    modelRepositoryAgents: null,
    responseCache: null,
  }
}
