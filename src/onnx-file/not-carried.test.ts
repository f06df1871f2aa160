import assert from 'node:assert/strict'
import { test } from 'node:test'
import { notCarried } from './not-carried.ts'

test('a tensor that cannot be carried is told with the option of skl2onnx that avoids it', () => {
  assert.match(notCarried('p', 'sequence'), /^'p' is of type sequence, .* to_onnx\(model, X, options=/)
})
