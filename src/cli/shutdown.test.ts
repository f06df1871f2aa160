import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isEcho } from './shutdown.ts'

test('the same signal within a moment is the echo of the first, later or another one is a second wish', () => {
  const first = { signal: 'SIGINT', atMs: 1000 } as const
  assert.equal(isEcho(first, { signal: 'SIGINT', atMs: 1001 }), true)
  assert.equal(isEcho(first, { signal: 'SIGINT', atMs: 1200 }), false)
  assert.equal(isEcho(first, { signal: 'SIGTERM', atMs: 1001 }), false)
})
