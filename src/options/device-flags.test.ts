import assert from 'node:assert/strict'
import test from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'

test('a share of the memory of a GPU is at most 1', () => {
  const limitsOf = (value: string) =>
    optionsOf(['--model-repository=/m', `--model-load-gpu-limit=${value}`]).engine.gpuLoadLimits
  assert.deepEqual([...limitsOf('1:0.5')], [[1, 0.5]])
  assert.throws(() => limitsOf('1:50'), /range \[0\.0, 1\.0\], got 50\.000000\nthat is of GPU 1/)
})

test('the rate limiter is off unless asked for; resources are per device where a device is named', () => {
  const limitOf = (...args: string[]) => optionsOf(['--model-repository=/m', ...args]).engine.rateLimit
  assert.equal(limitOf(), null)
  assert.deepEqual(limitOf('--rate-limit=execution_count'), { resources: null })
  const given = limitOf('--rate-limit=execution_count', '--rate-limit-resource=R:2', '--rate-limit-resource=S:4:1')
  assert.deepEqual(
    [...(given?.resources ?? [])],
    [
      ['R', 2],
      ['S:1', 4],
    ],
  )
})
