// Whatever scikit-learn fits is served with the answers that it gives itself, or is refused when it is loaded.

import assert from 'node:assert/strict'
import { readFile, rm } from 'node:fs/promises'
import path from 'node:path'
import test from 'node:test'
import { requireTool } from '../../tool.ts'
import { startServerProcess } from '../server-process.ts'
import { FrameworkRepository } from './framework-repository.ts'

// Small models are slower with several threads than with one.
process.env['OMP_NUM_THREADS'] = process.env['OPENBLAS_NUM_THREADS'] = '1'

/** Fits and checks all estimators in one process, and returns a repository of some of them. */
async function checked(python: string): Promise<FrameworkRepository> {
  const repository = await FrameworkRepository.make(python, 'check_estimators.py')
  const file = path.join(repository.path, 'verdict.json')
  const { checked: count, wrong } = JSON.parse(await readFile(file, 'utf8')) as { checked: number; wrong: string[] }
  await rm(file)
  assert.deepEqual(wrong, [])
  assert.ok(count > 150, `${count} were checked`)
  return repository
}

test('estimators of every sort answer as scikit-learn does or are refused with the reason; what `galatea init` writes serves', async () => {
  const python = await requireTool('python-sklearn')
  await using repository = await checked(python)
  for (const model of ['sentiment', 'travellers']) await repository.init(model, 'model.joblib', model)
  await using server = await startServerProcess([
    `--model-repository=${repository.path}`,
    '--allow-pickle-models',
    `--backend-config=sklearn,interpreter=${python}`,
  ])
  await repository.check(server)
})

test('so do those of an older scikit-learn and pandas', async () => {
  await using repository = await checked(await requireTool('python-sklearn-older'))
  assert.ok(repository.expected.size > 0)
})
