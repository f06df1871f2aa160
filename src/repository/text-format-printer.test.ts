import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { arbitraryModelConfig } from '../../test/fixtures/model-config/arbitrary-model-config.ts'
import { emptyModelConfig } from '../config/model-config.ts'
import { printModelConfigText } from './text-format-printer.ts'
import { parseModelConfigText } from './text-format-reader.ts'

test('reading what was printed gives the same configuration, whatever it holds', () => {
  fc.assert(
    fc.property(arbitraryModelConfig, (config) => {
      assert.deepEqual(parseModelConfigText(printModelConfigText(config)).config, plain(config))
    }),
    { numRuns: 60 },
  )
})

/** fast-check's records have no prototype; the reader's do. */
const plain = <T>(value: T): T => structuredClone(value)

test('fields at their default are not printed, but a choice made with a default value is', () => {
  const config = emptyModelConfig()
  assert.equal(printModelConfigText(config), '')
  config.versionPolicy = { latest: null, all: {}, specific: null }
  config.dynamicBatching = null
  config.input = []
  config.maxBatchSize = 8
  config.parameters.set('path', { stringValue: 'a "b"\n' })
  assert.equal(
    printModelConfigText(config),
    `version_policy {
  all {
  }
}
max_batch_size: 8
parameters {
  key: "path"
  value {
    string_value: "a \\"b\\"\\n"
  }
}
`,
  )
})
