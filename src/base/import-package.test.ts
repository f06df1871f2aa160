import assert from 'node:assert/strict'
import { test } from 'node:test'
import { importPackage } from './import-package.ts'

test('a library that is not installed is named with the command that installs it', async () => {
  await assert.rejects(importPackage('@galatea/not-there', 'a repository in xy://'), {
    code: 'UNSUPPORTED',
    message:
      'a repository in xy:// needs the package @galatea/not-there, which is not installed: npm install @galatea/not-there',
  })
})
