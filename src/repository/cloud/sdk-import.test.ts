import assert from 'node:assert/strict'
import { test } from 'node:test'
import { importSdk } from './sdk-import.ts'

test('a library that is not installed is named with the command that installs it', async () => {
  await assert.rejects(importSdk('@galatea/not-there', 'a repository in xy://'), {
    code: 'UNSUPPORTED',
    message:
      'a repository in xy:// needs the package @galatea/not-there, which is not installed: npm install @galatea/not-there',
  })
})
