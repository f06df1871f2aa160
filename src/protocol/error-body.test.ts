import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeErrorBody } from './error-body.ts'

test('an error repeats the beginning of what a client sent, and not megabytes', () => {
  const told = (message: string): string => (JSON.parse(encodeErrorBody(message).toString()) as { error: string }).error
  assert.equal(told('x'.repeat(65_536)), 'x'.repeat(65_536))
  assert.equal(told(`no input ${'x'.repeat(10_000_000)}`), `no input ${'x'.repeat(65_527)}…`)
})
