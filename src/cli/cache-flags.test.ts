import assert from 'node:assert/strict'
import test from 'node:test'
import { responseCacheBytes } from './cache-flags.ts'
import { parseFlags } from './flags.ts'

const bytesOf = (...args: string[]): number => responseCacheBytes(parseFlags(args, {}))

test('the cache is off unless it is given a size, by either flag', () => {
  assert.equal(bytesOf(), 0)
  assert.equal(bytesOf('--cache-config=local,size=1048576'), 1_048_576)
  assert.equal(bytesOf('--response-cache-byte-size=4096'), 4096)
})

test('another cache, another setting, a bad size and two sizes are refused with what there is', () => {
  assert.throws(() => bytesOf('--cache-config=other,host=h'), /no cache 'other'.*local,size/s)
  assert.throws(() => bytesOf('--cache-config=local,color=red'), /no setting 'color'/)
  assert.throws(() => bytesOf('--cache-config=local,size=0'), /out of bound/)
  assert.throws(() => bytesOf('--cache-config=local,size=1', '--response-cache-byte-size=1'), /one of the two/)
})
