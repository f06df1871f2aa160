// Configurations that Triton 2.51 was given, what it said about each (recorded from the server) and when: while polling (only logged, the client
// sees a poll failure), while loading, or not at all. `elsewhere` marks what only a backend, a warm-up request or the
// other models of an ensemble can find: such a configuration must pass here.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { MemoryLog } from '../fakes/memory-log.ts'
import { errorCodeText, ServerError } from '../../src/base/server-error.ts'
import { normaliseModelConfig, normaliseInstanceGroups } from '../../src/config/normalise-model-config.ts'
import { validateLoadedConfig } from '../../src/config/validate-model-config.ts'
import { readInitialStates } from '../../src/repository/initial-states.ts'
import { readLabels } from '../../src/repository/labels.ts'
import { ModelRepository, type FoundModel } from '../../src/repository/model-repository.ts'
import { LocalStore } from '../../src/repository/local-store.ts'
import { configViews, type ConfigView } from './golden/corpus-views.ts'

type Case = Omit<ConfigView, 'when'> & { readonly when: ConfigView['when'] | 'elsewhere' }

/** Those of the recorded cases that only a backend, a warm-up request or the other models of an ensemble can find. */
const foundElsewhere: readonly string[] = [
  'unknown_backend',
  'warmup_no_input_type',
  'warmup_wrong_type',
  'ensemble_unknown_version',
  'ensemble_version_zero',
  'ensemble_unknown_input',
  'ensemble_type_mismatch',
  'ensemble_shape_mismatch',
].map((name) => `invalid-${name}`)

// These were asked of the same server, beyond the cases that are replayed against a whole server.
const fixture = join(import.meta.dirname, '../fixtures/config-validation/cases.json')
const cases: readonly Case[] = [
  ...configViews().map((view) => (foundElsewhere.includes(view.name) ? { ...view, when: 'elsewhere' as const } : view)),
  ...(JSON.parse(await readFile(fixture, 'utf8')) as readonly Case[]),
]

/** What the engine does with a polled model up to the point where a backend would load it. */
async function loadSteps(model: FoundModel): Promise<void> {
  normaliseModelConfig(model.config)
  normaliseInstanceGroups(model.config, { gpuCount: 0 })
  validateLoadedConfig(model.config, { gpuCount: 0 })
  await readLabels(model.config, model.modelDirectory)
  await readInitialStates(model.config, model.modelDirectory)
}

describe('a configuration is refused with Triton’s words, at the moment Triton refuses it', () => {
  let root = ''
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'galatea-config-'))
    for (const { model, config } of cases) {
      await mkdir(join(root, model, '1'), { recursive: true })
      await writeFile(join(root, model, 'config.pbtxt'), config)
      if (!config.includes('platform: "ensemble"')) await writeFile(join(root, model, '1', 'model.py'), '')
    }
  })
  after(() => rm(root, { recursive: true, force: true }))

  for (const { name, model, isAutoCompleteDisabled, when, message, code } of cases) {
    test(`${name}: ${when} ${message}`, async () => {
      const log = new MemoryLog()
      const options = { roots: [root], modelConfigName: '', isAutoCompleteDisabled }
      const polled = await new ModelRepository({ log, store: new LocalStore() }, options).pollOne(model)
      assert.ok(polled !== null)
      const expected = message.replace('{REPO}', root)
      const logged = log.entries.map((entry) => entry.message).filter((text) => text.startsWith('Poll failed'))
      if (when === 'poll') {
        assert.equal(polled.error?.message, expected)
        assert.deepEqual(logged, [`Poll failed for model directory '${model}': ${expected}`])
        return
      }
      assert.equal(polled.error, null)
      assert.deepEqual(logged, [])
      if (when !== 'load') {
        await loadSteps(polled)
        return
      }
      await assert.rejects(loadSteps(polled), (error) => {
        assert.ok(error instanceof ServerError)
        assert.equal(error.message, expected)
        assert.equal(errorCodeText[error.code], code)
        return true
      })
    })
  }
})
