import assert from 'node:assert/strict'
import { test } from 'node:test'
import { growingFactor } from './tune-collector.ts'

const mib = 1024 * 1024

test('a server that holds little may double, and one that holds much for its clients keeps little garbage beside it', () => {
  assert.equal(growingFactor(30 * mib), 2)
  assert.ok(growingFactor(90 * mib) * 90 < 90 + 41, 'an attack: heap and buffers of 90 MiB')
  assert.ok(growingFactor(4096 * mib) > 1.1, 'never collection after collection')
})
