import assert from 'node:assert/strict'
import test from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'

test('a share of the memory of a GPU is at most 1', () => {
  const limitsOf = (value: string) =>
    optionsOf(['--model-repository=/m', `--model-load-gpu-limit=${value}`]).engine.gpuLoadLimits
  assert.deepEqual([...limitsOf('1:0.5')], [[1, 0.5]])
  assert.throws(() => limitsOf('1:50'), /range \[0\.0, 1\.0\], got 50\.000000\nthat is of GPU 1/)
})

test('a share may be written as C++ reads it, and the first of two for one GPU counts, as in Triton', () => {
  const limitsOf = (...values: string[]) => [
    ...optionsOf(['--model-repository=/m', ...values.map((value) => `--model-load-gpu-limit=${value}`)]).engine
      .gpuLoadLimits,
  ]
  assert.deepEqual(limitsOf('0:.5'), [[0, 0.5]])
  assert.deepEqual(limitsOf('0:1e-1'), [[0, 0.1]])
  assert.deepEqual(limitsOf('0:0.25', '0:0.75'), [[0, 0.25]])
  for (const value of ['-1:0.5', '0:-0.5', '0:', '0', 'a:1', '0:x', '0:.'])
    assert.throws(() => limitsOf(value), /Invalid option value|Cannot parse pair option/)
})

test('of two pools for one GPU the last counts, and one that no number of 64 bits says is refused', () => {
  const poolsOf = (...values: string[]) => [
    ...optionsOf(['--model-repository=/m', ...values.map((value) => `--cuda-memory-pool-byte-size=${value}`)]).engine
      .gpuPoolBytes,
  ]
  assert.deepEqual(poolsOf('0:1', '1:3', '0:2'), [
    [0, 2],
    [1, 3],
  ])
  assert.equal(poolsOf('0:18446744073709551615').length, 1)
  assert.throws(() => poolsOf('0:99999999999999999999999'), /below 2\^64 for GPU 0/)
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
