import assert from 'node:assert/strict'
import { test } from 'node:test'
import { interpreterOf } from './backend-interpreter.ts'

test('what is said of a backend goes before what is said of all', () => {
  const config = new Map([
    ['', new Map([['interpreter', 'all']])],
    ['vllm', new Map([['interpreter', 'one']])],
  ])
  assert.deepEqual([interpreterOf(config, 'vllm'), interpreterOf(config, 'sklearn')], ['one', 'all'])
  assert.equal(interpreterOf(new Map(), 'vllm'), 'python3')
})
