import assert from 'node:assert/strict'
import { test } from 'node:test'
import { headerOf } from './http-message.ts'

test('a header is found in any spelling, also when names of the same length take turns', () => {
  const headers = ['Accept', '*/*', 'COOKIE', 'a=b', 'origin', 'here', 'Origin', 'there', 'X-Own', 'yes']
  for (let turn = 0; turn < 2; turn++) {
    assert.equal(headerOf(headers, 'accept'), '*/*')
    assert.equal(headerOf(headers, 'cookie'), 'a=b')
    assert.equal(headerOf(headers, 'origin'), 'here')
    assert.equal(headerOf(['ORIGIN', 'elsewhere'], 'origin'), 'elsewhere')
    assert.equal(headerOf(headers, 'x-own'), 'yes')
    assert.equal(headerOf(headers, 'x-owe'), null)
    assert.equal(headerOf(headers, 'server'), null)
  }
})
