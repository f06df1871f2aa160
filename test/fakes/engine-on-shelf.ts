// An Engine over models that lie nowhere: a test puts them on a shelf, changes them there, and takes them away.

import type { Clock } from '../../src/base/clock.ts'
import { MemoryLog } from './memory-log.ts'
import { emptyModelConfig } from '../../src/config/model-config.ts'
import { Engine, type EngineOptions } from '../../src/engine/engine.ts'
import type { FoundModel, PolledModel } from '../../src/repository/model-repository.ts'
import { parseModelConfigText } from '../../src/repository/text-format-reader.ts'
import { engineOptions } from '../fixtures/engine-options.ts'
import { FakeBackend } from './fake-backend.ts'

/** A model as a repository finds it, from the text of its configuration. */
export function shelvedModel(name: string, text: string, fields: Partial<FoundModel> = {}): FoundModel {
  const { config } = parseModelConfigText(`name: "${name}" ${text}`)
  return {
    name,
    error: null,
    config: { ...emptyModelConfig(), ...config },
    versions: ['1'],
    hints: [],
    fingerprint: text,
    modelDirectory: `/models/${name}`,
    repositoryPath: '/models',
    ...fields,
  }
}

/** One FP32 in, one FP32 out, for the backend 'fake'. */
export const plainModelText = (name: string, extra = '', instanceCount = 1): string => `
  backend: "fake" ${extra}
  input { name: "IN" data_type: TYPE_FP32 dims: 1 }
  output { name: "OUT" data_type: TYPE_FP32 dims: 1 }
  instance_group { name: "${name}" kind: KIND_CPU count: ${instanceCount} }
`

type Parts = Partial<ConstructorParameters<typeof Engine>[0]>

export function engineOnShelf(
  clock: Clock,
  models: readonly PolledModel[],
  options: Partial<EngineOptions> = {},
  parts: Parts = {},
) {
  const backend = new FakeBackend('fake', clock)
  const log = new MemoryLog()
  const shelf = new Map(models.map((model) => [model.name, model]))
  const engine = new Engine(
    {
      clock,
      log,
      repository: {
        poll: () => Promise.resolve([...shelf.values()]),
        pollOne: (name) => Promise.resolve(shelf.get(name) ?? null),
        pollDirectory: (name) => Promise.resolve(shelf.get(name) as PolledModel),
        names: () => Promise.resolve([...shelf.keys()].sort()),
      },
      findBackend: (name) => Promise.resolve(name === backend.name ? backend : null),
      closeBackends: () => backend.close(),
      ...parts,
    },
    { ...engineOptions, ...options },
  )
  return { engine, backend, log, shelf }
}
