import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyModelConfig } from '../config/model-config.ts'
import { configWarnings } from './lint-config-rules.ts'

test('a parameter that was nearly right is named with the right one; a model may have others of its own', () => {
  const parameters = new Map(['lasy', 'temperature', 'pad_value.ids'].map((key) => [key, { stringValue: 'true' }]))
  const found = [...configWarnings({ ...emptyModelConfig(), name: 'm', backend: 'python', parameters })]
  assert.deepEqual(
    found.map(({ rule, path, fix }) => [rule, path, fix]),
    [['parameter', 'parameters["lasy"]', "did you mean 'lazy'?"]],
  )
})
