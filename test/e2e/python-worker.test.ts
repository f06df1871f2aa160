// The worker's own tests, in Python.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { test } from 'node:test'
import { testPython } from './python-models-under-test.ts'

test("the Python worker's own tests pass", () => {
  const folder = path.join(import.meta.dirname, '..', '..', 'python')
  const { status, stderr } = spawnSync(testPython, ['-B', '-m', 'unittest', 'discover', '-s', 'tests', '-t', '.'], {
    cwd: folder,
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  assert.match(stderr, /^Ran [1-9]\d* tests/m)
})
