// Blocks of a configuration that this version reads and checks but does not act on. A block leaves this table in the
// change that makes it work; docs/reference/config.md says the same in words.

import type { ModelConfig } from '../model/model-config.ts'

type NotYet = {
  readonly path: string
  readonly isUsed: (config: ModelConfig) => boolean
  readonly effect: string
  /** The engine refuses to load the model. */
  readonly isRefused: boolean
}

const block = (path: string, isUsed: NotYet['isUsed'], effect: string, isRefused = false): NotYet => ({
  path,
  isUsed,
  effect,
  isRefused,
})

export const blocksNotActedOn: readonly NotYet[] = [
  block(
    'sequence_batching.iterative_sequence',
    (config) => config.sequenceBatching?.iterativeSequence ?? false,
    'the model is refused at load',
    true,
  ),
  block('batch_input', (config) => config.batchInput.length > 0, 'the model does not get these inputs'),
  block('batch_output', (config) => config.batchOutput.length > 0, 'outputs are not scattered'),
  block('model_repository_agents', (config) => config.modelRepositoryAgents !== null, 'no agent is called'),
]

export function notActedOn(config: ModelConfig): NotYet[] {
  return blocksNotActedOn.filter(({ isUsed }) => isUsed(config))
}
