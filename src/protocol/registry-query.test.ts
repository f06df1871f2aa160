import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readDetailsQuery, readHistoryLimit, readRegistryQuery } from './registry-query.ts'

test('a search is read from the query, decoded', () => {
  assert.deepEqual(readRegistryQuery('/v2/registry?tag=a&tag=b%20c&owner=me&q=x+y&limit=5&after=m'), {
    tags: ['a', 'b c'],
    owner: 'me',
    text: 'x y',
    limit: 5,
    after: 'm',
  })
  assert.deepEqual(readRegistryQuery('/v2/registry'), { tags: [], owner: null, text: '', limit: 100, after: '' })
})

test('a parameter that is not known and a limit that makes no sense are refused', () => {
  const refusal = (target: string, message: RegExp): void =>
    assert.throws(() => readRegistryQuery(target), { code: 'INVALID_ARG', message })
  refusal('/v2/registry?tags=a', /unknown query parameter 'tags', expected one of: tag, owner, q, limit, after/)
  for (const limit of ['0', '-1', '1001', 'ten', '1e2', '', '9'.repeat(400)]) {
    refusal(`/v2/registry?limit=${limit}`, /'limit' must be a number from 1 to 1000, got '/)
  }
  assert.equal(readHistoryLimit('/x?limit=50'), 50)
  assert.throws(() => readHistoryLimit('/x?limit=51'), /from 1 to 50/)
})

test('the index has details only when they are asked for, and ignores other parameters as Triton does', () => {
  for (const target of ['/v2/repository/index', '/i?', '/i?detail=true', '/i?details=false', '/i?x=details']) {
    assert.equal(readDetailsQuery(target), false)
  }
  for (const target of ['/i?details', '/i?details=', '/i?a=b&details=true', '/i?details=1']) {
    assert.equal(readDetailsQuery(target), true)
  }
  assert.throws(() => readDetailsQuery('/i?details=yes'), /'details' must be true or false, got 'yes'/)
})
