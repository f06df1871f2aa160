// The files that the pages on deployment and Kubernetes show cannot be run here. What they start exists, and takes these flags.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { parseFlags } from '../../src/cli/parse-flags.ts'
import { projectRoot } from './server-process.ts'

const page = ['deployment', 'kubernetes']
  .map((name) => readFileSync(path.join(projectRoot, `docs/guide/${name}.md`), 'utf8'))
  .join('\n')
const blocks = [...page.matchAll(/```(dockerfile|ini|yaml)\n(.*?)```/gs)].map(([, kind, text]) => ({ kind, text }))

test('services and containers start the server itself, with flags that it has', () => {
  assert.deepEqual(
    blocks.map(({ kind }) => kind),
    ['dockerfile', 'ini', 'yaml'],
  )
  for (const { kind, text = '' } of blocks) {
    assert.doesNotMatch(text, /npx|npm start/)
    if (kind !== 'yaml') assert.match(text, /node_modules\/\.bin\/galatea/)
    const flags = text.match(/--(?!omit)[a-z-]+=[^\s",\]]+/g) ?? []
    assert.ok(flags.length > 1)
    parseFlags(flags, {})
  }
})
