import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionsOf } from '../test/fixtures/options-of.ts'
import { absentGpus } from './open-gpus.ts'

test('settings for GPUs that are not there are named', () => {
  const limits = ['--model-memory-limit=8GiB', '--model-memory-limit=0:1GiB', '--model-load-gpu-limit=2:0.5']
  const { engine } = optionsOf(['--model-repository=/m', ...limits, '--cuda-memory-pool-byte-size=1:4096'])
  assert.deepEqual(absentGpus(engine, 3), [])
  assert.deepEqual(absentGpus(engine, 2), ['--model-load-gpu-limit of GPU 2 has no effect: there are the GPUs 0, 1'])
  assert.deepEqual(
    absentGpus(engine, 0).map((text) => text.split(':')[0]),
    ['--model-memory-limit', '--model-load-gpu-limit', '--cuda-memory-pool-byte-size'].map(
      (flag, i) => `${flag} of GPU ${[0, 2, 1][i]} has no effect`,
    ),
  )
})
