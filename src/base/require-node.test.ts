import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requireNode } from './require-node.ts'

test('a Node that is too old is told which one is needed', () => {
  requireNode('24.0.0')
  requireNode()
  for (const version of ['20.20.2', '22.23.3']) {
    assert.throws(() => requireNode(version), {
      code: 'UNSUPPORTED',
      message: new RegExp(`needs Node 24 or newer, and this is Node ${version}`),
    })
  }
})
