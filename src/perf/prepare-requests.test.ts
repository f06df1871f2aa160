import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ModelUnderTest } from './model-under-test.ts'
import { readPerfOptions } from './perf-options.ts'
import { prepareRequests } from './prepare-requests.ts'

const model: ModelUnderTest = {
  name: 'm',
  version: '',
  maxBatchSize: 4,
  inputs: [{ name: 'A', dataType: 'INT32', shape: [1], isOptional: false }],
  outputs: [],
  isSequence: false,
  isDecoupled: false,
  isCached: false,
  composing: [],
  hasStatistics: true,
}

const step = (value: number) => ({
  inputs: [{ name: 'A', dataType: 'INT32' as const, shape: [1], bytes: Buffer.from([value, 0, 0, 0]) }],
  expected: null,
})

function headOf(...args: string[]): string {
  const read = readPerfOptions(['-m', 'm', ...args])
  if (read.kind !== 'run') throw new Error('no options')
  const target = { host: 'box', port: 8000, tls: null }
  const [[request] = []] = prepareRequests([[step(1), step(2)]], model, read.options, target, null)
  return request?.head.toString('latin1') ?? ''
}

test('requests go below the path of the address', () => {
  assert.match(headOf('-u', 'http://box:8000/models/'), /^POST \/models\/v2\/models\/m\/infer HTTP/)
})

test('a header of the command line stands in place of our own, once', () => {
  const plain = headOf('-H', 'X-Key: 1')
  assert.match(plain, /^POST \/v2\/models\/m\/infer HTTP\/1\.1\r\nHost: box:8000\r\n/)
  assert.match(plain, /\r\nX-Key: 1\r\n/)
  const own = headOf('-H', 'host: other', '-H', 'Content-Type: text/plain')
  assert.equal(own.match(/^host: /gim)?.length, 1)
  assert.match(own, /\r\nhost: other\r\n/)
  assert.equal(own.match(/^content-type: /gim)?.length, 1)
})
