// Each model may name the environment that it runs in, so that two versions of a framework serve side by side.

import assert from 'node:assert/strict'
import { appendFile, cp } from 'node:fs/promises'
import path from 'node:path'
import test, { after } from 'node:test'
import { requireTool } from '../../tool.ts'
import { startServerProcess } from '../server-process.ts'
import { FrameworkRepository } from './framework-repository.ts'

test('two versions of a framework serve side by side, each model in the environment that it names', async () => {
  const newer = await requireTool('python-sklearn')
  const older = await requireTool('python-sklearn-older')
  const lines = await FrameworkRepository.make(newer, 'make_line.py')
  after(() => lines[Symbol.asyncDispose]())
  const frames = await FrameworkRepository.make(older, 'make_data_frame.py')
  after(() => frames[Symbol.asyncDispose]())
  // Saved with the newer version, loaded with the older.
  await cp(path.join(lines.path, 'line'), path.join(frames.path, 'line_older'), { recursive: true })
  const environment = path.dirname(path.dirname(older))
  for (const model of ['line_older', 'travellers']) {
    const parameter = `parameters { key: "EXECUTION_ENV_PATH" value { string_value: "${environment}" } }\n`
    await appendFile(path.join(frames.path, model, 'config.pbtxt'), parameter)
  }
  await using server = await startServerProcess([
    `--model-repository=${lines.path}`,
    `--model-repository=${frames.path}`,
    '--allow-pickle-models',
    `--backend-config=sklearn,interpreter=${newer}`,
  ])
  await lines.check(server)
  await frames.check(server)
  assert.match(server.output, /'line_older' was saved with scikit-learn 1\.9\.\d+ and runs with 1\.7\./)
  assert.doesNotMatch(server.output, /'line' was saved with/)
})
