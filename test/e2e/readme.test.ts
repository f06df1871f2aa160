// The commands in the documents, run as they stand.

import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { projectRoot, startServerProcess } from './server-process.ts'

const read = (file: string): string => readFileSync(path.join(projectRoot, file), 'utf8')

type Example = { readonly command: string; readonly answer: string }

/** Blocks after `<!-- runnable -->`, each with the block after the `<!-- answer -->` that follows it. */
function examplesOf(markdown: string): Example[] {
  const pattern = /<!-- runnable -->\n```sh\n([\s\S]*?)```\s*<!-- answer -->\n```json\n([\s\S]*?)```/g
  return [...markdown.matchAll(pattern)].map(([, command = '', answer = '']) => ({ command, answer }))
}

const hasCurl = spawnSync('curl', ['--version']).error === undefined

describe('commands in documents', { skip: hasCurl ? false : 'curl is not installed' }, () => {
  for (const file of ['README.md', 'docs/guide/quickstart.md']) {
    test(`${file}: each runnable command gets the answer below it`, async () => {
      const markdown = read(file)
      const examples = examplesOf(markdown)
      assert.ok(examples.length > 0)
      assert.equal(
        examples.length,
        markdown.split('<!-- runnable -->').length - 1,
        'a runnable block without an answer',
      )
      await using server = await startServerProcess(['--examples'])
      for (const { command, answer } of examples) {
        const here = command.replaceAll('localhost:8000', server.address)
        assert.notEqual(here, command)
        const { stdout } = await promisify(execFile)('sh', ['-c', here])
        assert.deepEqual(JSON.parse(stdout), JSON.parse(answer))
      }
    })
  }
})

test('README.md names two commands for a fresh machine, and package.json has them', () => {
  const blocks = [...read('README.md').matchAll(/```sh\n(npm ci.*)\n```/g)].map((match) => match[1])
  assert.deepEqual(blocks, ['npm ci && npm start', 'npm ci && npm test'])
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  assert.match(scripts['start'] ?? '', /galatea\.js serve --examples/)
  assert.match(scripts['test'] ?? '', /scripts\/test\.ts/)
})
