import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InferenceClient, ModelConfig } from '../client/inference-client.ts'
import { readModel } from './model-under-test.ts'

/** A server with these configurations. */
const clientOf = (configs: Readonly<Record<string, object>>): InferenceClient => {
  const answers: Partial<InferenceClient> = {
    serverMetadata: async () => ({ name: 'x', version: '1', extensions: ['statistics'] }),
    modelMetadata: async (name) => ({ name, versions: ['1'], platform: '', inputs: [], outputs: [] }),
    modelConfig: async (name) =>
      ({ name, max_batch_size: 0, input: [], output: [], ...configs[name] }) as unknown as ModelConfig,
  }
  return answers as InferenceClient
}

const ensembleOf = (...names: string[]): object => ({
  ensemble_scheduling: { step: names.map((name) => ({ model_name: name, model_version: -1 })) },
})

test('an ensemble is cached or a sequence when one of its models is, however deep it stands', async () => {
  const configs = {
    outer: ensembleOf('plain', 'inner'),
    inner: ensembleOf('cached', 'turns'),
    other: ensembleOf('plain'),
    plain: {},
    cached: { response_cache: { enable: true } },
    turns: { sequence_batching: {} },
  }
  const facts = async (name: string): Promise<boolean[]> => {
    const { isCached, isSequence } = await readModel(clientOf(configs), name, '', [])
    return [isCached, isSequence]
  }
  assert.deepEqual(await facts('outer'), [true, true])
  assert.deepEqual(await facts('other'), [false, false])
  assert.deepEqual(await facts('cached'), [true, false])
})
