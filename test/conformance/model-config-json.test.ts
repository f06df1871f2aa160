// Triton 2.51's /config answers, byte for byte, from the configuration files they were made of.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { isEnsemble } from '../../src/config/known-backends.ts'
import type { ModelConfig } from '../../src/config/model-config.ts'
import { normaliseInstanceGroups, normaliseModelConfig } from '../../src/config/normalise-model-config.ts'
import { encodeModelConfigJson, parseModelConfigJson } from '../../src/protocol/model-config-json.ts'
import { completeBackendFields } from '../../src/repository/backend-detection.ts'
import { parseModelConfigText } from '../../src/repository/text-format-reader.ts'
import { loadedConfigViews, type LoadedConfigView } from './golden/corpus-views.ts'

const fixtures = join(import.meta.dirname, '../fixtures/model-config')

function loadedConfig(model: string, text: string): ModelConfig {
  const { config } = parseModelConfigText(text)
  completeBackendFields(config, model, new Map([['model.py', 'file']]))
  normaliseModelConfig(config)
  normaliseInstanceGroups(config, { gpuCount: 0 })
  // An ensemble is decoupled when one of its steps is; only the models it calls know.
  if (isEnsemble(config)) config.modelTransactionPolicy = { decoupled: model === 'streaming' }
  return config
}

/** Asked of the same server: fields that no configuration of the corpus has. */
const rareFields = JSON.parse(await readFile(join(fixtures, 'rare-fields.json'), 'utf8')) as LoadedConfigView

for (const { model, config: text, json } of [...loadedConfigViews(), rareFields]) {
  test(`the configuration of '${model}' is answered byte for byte`, () => {
    assert.equal(encodeModelConfigJson(loadedConfig(model, text)), json)
  })

  test(`the answered configuration of '${model}' can be sent back as an override`, () => {
    assert.deepEqual(parseModelConfigJson(json), loadedConfig(model, text))
  })
}

test('a configuration with every block reads as the server that recorded it read it', async () => {
  const text = await readFile(join(fixtures, 'config-full.pbtxt'), 'utf8')
  const recorded = await readFile(join(fixtures, 'config-full.json'), 'utf8')
  assert.deepEqual(loadedConfig('config_full', text), parseModelConfigJson(recorded))
})
