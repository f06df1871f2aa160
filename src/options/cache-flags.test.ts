import assert from 'node:assert/strict'
import test from 'node:test'
import { optionsOf } from '../../test/fixtures/options-of.ts'
import type { ResponseCacheOptions } from './server-options.ts'

const cacheOf = (...args: string[]): ResponseCacheOptions | null =>
  optionsOf(['--model-repository=/m', ...args]).engine.responseCache

test('the cache is off unless it is given a size, by either flag', () => {
  assert.equal(cacheOf(), null)
  assert.deepEqual(cacheOf('--cache-config=local,size=1048576'), { kind: 'local', maxBytes: 1_048_576 })
  assert.deepEqual(cacheOf('--response-cache-byte-size=4096'), { kind: 'local', maxBytes: 4096 })
})

test("a cache in Redis takes Triton's settings, and has bounds where Triton waits for ever", () => {
  const { password, ...others } = cacheOf(
    '--cache-config=redis,host=h',
    '--cache-config=redis,port=7000',
    '--cache-config=redis,password=secret',
    '--cache-config=redis,pool_size=2',
  ) as ResponseCacheOptions & { kind: 'redis' }
  assert.equal(password, 'secret')
  assert.deepEqual(others, {
    kind: 'redis',
    host: 'h',
    port: 7000,
    user: '',
    database: 0,
    connectTimeoutMs: 5000,
    socketTimeoutMs: 100,
    poolSize: 2,
    hasTls: false,
    ttlSecs: 0,
  })
})

test('another cache, another setting, a bad size, two sizes and two caches are refused with what there is', () => {
  assert.throws(() => cacheOf('--cache-config=other,host=h'), /no cache 'other'.*local,size/s)
  assert.throws(() => cacheOf('--cache-config=local,color=red'), /no setting 'color'/)
  assert.throws(() => cacheOf('--cache-config=redis,host=h', '--cache-config=redis,color=red'), /no setting 'color'/)
  assert.throws(() => cacheOf('--cache-config=redis,port=1'), /at a minimum specify redis,host/)
  assert.throws(() => cacheOf('--cache-config=local,size=0'), /out of bound/)
  assert.throws(() => cacheOf('--cache-config=local,size=192', '--response-cache-byte-size=192'), /one or the other/)
  assert.throws(
    () => cacheOf('--cache-config=local,size=192', '--cache-config=redis,host=h'),
    /multiple cache configurations/,
  )
})

test("a cache smaller than Triton's smallest is refused by either flag, and 0 bytes of the old flag are no cache", () => {
  assert.deepEqual(cacheOf('--cache-config=local,size=192'), { kind: 'local', maxBytes: 192 })
  assert.deepEqual(cacheOf('--response-cache-byte-size=192'), { kind: 'local', maxBytes: 192 })
  assert.throws(() => cacheOf('--cache-config=local,size=191'), /"--cache-config".*Got 191\nexpected 192 to/s)
  assert.throws(() => cacheOf('--response-cache-byte-size=191'), /"--response-cache-byte-size".*Got 191/s)
  assert.equal(cacheOf('--response-cache-byte-size=0'), null)
})
