// TensorFlow: SavedModels and frozen graphs serve as they are.

import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { requireTool } from '../../tool.ts'
import { startServerProcess } from '../server-process.ts'
import { FrameworkRepository } from './framework-repository.ts'

const python = await requireTool('python-tensorflow')
const repository = await FrameworkRepository.make(python, 'make_tensorflow.py')
after(() => repository[Symbol.asyncDispose]())

test('SavedModels of every type and with chosen signatures, and graphs, answer as TensorFlow does', async () => {
  await repository.inspect('dense', 'model.savedmodel')
  await using server = await startServerProcess([
    `--model-repository=${repository.path}`,
    '--exit-on-error=false',
    '--model-load-thread-count=2',
    `--backend-config=tensorflow,interpreter=${python}`,
  ])
  await repository.check(server)
  assert.match(server.output, /model 'dense' was saved with TensorFlow 2\.11\.0 and runs with 2\./)
  assert.match(server.output, /model 'dense_nothing' has no signature 'nothing'; there is classes, serving_default/)
  assert.match(server.output, /tensor 'words' is ragged or sparse/)
  const index = (await (await fetch(`${server.url}/v2/repository/index`, { method: 'POST' })).json()) as {
    name: string
    state: string
    reason?: string
  }[]
  const states = Object.fromEntries(index.map(({ name, state }) => [name, state]))
  assert.equal(states['ragged'], 'UNAVAILABLE')
  assert.equal(states['dense'], 'READY')
})
