// The model in this process, without a port: the same queue, batches and errors as in the server.

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, test } from 'node:test'
import { createEngine } from 'galatea'

const engine = await createEngine({ modelRepository: path.join(import.meta.dirname, '../models') })
after(() => engine.close())

test('good words are good, bad words are bad', async () => {
  const { outputs } = await engine.infer('mood', { TEXT: ['What a great day', 'It is slow', 'Rain'] })
  assert.deepEqual(outputs['MOOD']?.data, ['good', 'bad', 'neither'])
})

test('an empty text is refused', async () => {
  await assert.rejects(engine.infer('mood', { TEXT: [' '] }), /TEXT has an empty text/)
})
