import assert from 'node:assert/strict'
import { test } from 'node:test'
import { windowMsFor } from './measure-settings.ts'

test('a window is as long as asked for, longer for a slow model, and never too short for an answer', () => {
  assert.equal(windowMsFor(400, 2), 400)
  assert.equal(windowMsFor(10_000, 2), 10_000)
  assert.equal(windowMsFor(400, 100), 1000)
  assert.equal(windowMsFor(400, 1000), 5000)
  assert.equal(windowMsFor(400, 8000), 16_000)
})
