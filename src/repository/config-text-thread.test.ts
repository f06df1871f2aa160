import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigTextThread } from './config-text-thread.ts'
import { TextFormatError } from './text-format-error.ts'
import { parseModelConfigText } from './text-format-reader.ts'

/** As long as it is odd: half a million values. */
const longText = (end: string): string => `name: "m" input { name: "X" dims: [ ${'1,'.repeat(500_000)} 1 ] }\n${end}`

test('a long configuration is read while others are served, and is the same as one that is read at once', async () => {
  const thread = new ConfigTextThread()
  const text = longText(
    'parameters { key: "k" value { string_value: "\\303\\244" } } version_policy { latest { num_versions: 2 } }',
  )
  let isServed = false
  setImmediate(() => (isServed = true))
  const config = await thread.read(text)
  assert.ok(isServed)
  assert.deepEqual(config, parseModelConfigText(text).config)
})

test('a mistake in a long configuration has its line, its column and its hint', async () => {
  await assert.rejects(new ConfigTextThread().read(longText('inputs { }')), (error) => {
    assert.ok(error instanceof TextFormatError)
    assert.equal(error.message, "2:1: unknown field 'inputs' in ModelConfig")
    assert.equal(error.hint, "did you mean 'input'?")
    return true
  })
})
