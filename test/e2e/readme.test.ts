// The commands in the documents, run as they stand.

import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { inOwnNetwork, noOwnNetwork } from './own-network.ts'
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

/** Waits for the server of `npm start`, and runs the commands beside it. */
const besideNpmStart = (commands: readonly string[]): string => `
  npm start >&2 &
  until curl -sf localhost:8000/v2/health/ready; do kill -0 $! || exit 1; sleep 0.1; done
  ${commands.join('\nprintf "\\0"\n')}`

const skip = hasCurl ? noOwnNetwork() : 'curl is not installed'

test('README.md: `npm start` serves on the ports of the commands, as they stand', { skip }, async () => {
  const examples = examplesOf(read('README.md'))
  const script = besideNpmStart(examples.map(({ command }) => command))
  const child = spawn('unshare', [...inOwnNetwork, 'sh', '-c', script], {
    cwd: projectRoot,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const output = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (output.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output.stderr += chunk.toString()))
  const closed = once(child, 'close')
  await once(child, 'exit')
  // The shell has ended, and the server is still there.
  process.kill(-(child.pid ?? 0), 'SIGKILL')
  await closed
  const answers = output.stdout.split('\0').map((text) => JSON.parse(text) as unknown)
  assert.deepEqual(
    answers,
    examples.map(({ answer }) => JSON.parse(answer) as unknown),
    output.stderr,
  )
})

test('README.md names two commands for a fresh machine, and package.json has them', () => {
  const blocks = [...read('README.md').matchAll(/```sh\n(npm ci.*)\n```/g)].map((match) => match[1])
  assert.deepEqual(blocks, ['npm ci && npm start', 'npm ci && npm test'])
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  assert.match(scripts['start'] ?? '', /galatea\.js serve --examples/)
  assert.match(scripts['test'] ?? '', /scripts\/test\.ts/)
})
