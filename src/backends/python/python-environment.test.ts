import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lastWords } from './python-environment.ts'

test('of what pip writes its reason comes first, without the versions that it passed over', () => {
  const output = `Looking in indexes: https://index
ERROR: Ignored the following versions that require a different python version: 1.21.2 Requires-Python >=3.7,<3.11
ERROR: Could not find a version that satisfies the requirement nobody==9 (from versions: none)
ERROR: No matching distribution found for nobody==9
[notice] A new release of pip is available
`
  assert.equal(
    lastWords(output),
    'ERROR: No matching distribution found for nobody==9' +
      ' | ERROR: Could not find a version that satisfies the requirement nobody==9 (from versions: none)' +
      ' | Looking in indexes: https://index',
  )
  assert.equal(lastWords('WARNING: no\n'), 'WARNING: no')
})
