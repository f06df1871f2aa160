// Blocks of a configuration that this version reads and checks but does not act on. A block leaves this table in the
// change that makes it work; docs/reference/config.md says the same in words.

import type { ModelConfig } from '../config/model-config.ts'

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

const blocksNotActedOn: readonly NotYet[] = [
  block(
    'model_repository_agents',
    (config) => config.modelRepositoryAgents?.agents.some(({ name }) => name !== 'checksum') ?? false,
    'of repository agents there is `checksum` alone',
    true,
  ),
]

export function notActedOn(config: ModelConfig): NotYet[] {
  return blocksNotActedOn.filter(({ isUsed }) => isUsed(config))
}
