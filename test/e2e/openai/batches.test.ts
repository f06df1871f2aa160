// Files and batches of the OpenAI API, with its official client: they are jobs, and outlive the server.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../../tool.ts'
import { projectRoot, startServerProcess } from '../server-process.ts'

const models = `--model-repository=${path.join(projectRoot, 'test/fixtures/openai/models')}`
const bare = [
  models,
  '--model-control-mode=explicit',
  '--load-model=toy',
  '--allow-grpc=false',
  '--allow-metrics=false',
]

test('a file of calls becomes a file of answers, and both are there after a restart', async (t) => {
  const program = await requireTool('openai-node')
  const entry = path.join(path.dirname(program), '../openai/index.mjs')
  const state = await mkdtemp(path.join(tmpdir(), 'galatea-batches-'))
  t.after(() => rm(state, { recursive: true, force: true }))
  const flags = [...bare, '--allow-jobs=true', '--state-dir', state]
  const server = await startServerProcess(flags)
  const script = path.join(import.meta.dirname, 'batches.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, [script, entry, `${server.url}/v1`])
  await server.stop()
  const found = JSON.parse(stdout) as Record<string, [number, string]>
  assert.deepEqual(found['file'], ['calls.jsonl', 'batch', true, true])
  const counts = { total: 3, completed: 2, failed: 1 }
  assert.deepEqual(found['batch'], ['completed', counts, { of: 'test' }, '/v1/chat/completions'])
  assert.deepEqual(found['answers'], [['a', 'first', null], ['b', 'second', null], ['c', null, '404']]) // prettier-ignore
  assert.deepEqual(found['listed'], [true])
  assert.equal(found['input'], 3)
  assert.match(found['cancelTwice']?.[1] ?? '', /is over already/)
  assert.match(found['twice']?.[1] ?? '', /line 2 of the input file: 'custom_id' 'a' is there twice/)
  assert.match(
    found['wrongPath']?.[1] ?? '',
    /'url' is '\/v1\/chat\/completions', and the batch is for '\/v1\/embeddings'/,
  )
  assert.match(found['deep']?.[1] ?? '', /line 2 of the input file: the line is not read: .* deeper than 256 levels/)
  assert.match(found['noLines']?.[1] ?? '', /the input file has no lines/)
  assert.match(found['purpose']?.[1] ?? '', /'purpose' must be batch, got 'fine-tune'/)
  assert.match(found['metadata']?.[1] ?? '', /'metadata' must have at most 16 texts of at most 512 characters/)
  assert.equal(found['deleted'], true)
  assert.equal(found['gone']?.[0], 404)
  const again = await startServerProcess(flags)
  const list = (await (await fetch(`${again.url}/v1/batches`)).json()) as {
    data: { status: string; output_file_id: string }[]
  }
  assert.equal(list.data[0]?.status, 'completed')
  const content = await fetch(`${again.url}/v1/files/${list.data[0].output_file_id}/content`)
  assert.equal((await content.text()).trim().split('\n').length, 3)
  await again.stop()
})

test('a server without jobs says how to get batches', async () => {
  await using server = await startServerProcess(bare)
  const response = await fetch(`${server.url}/v1/batches`)
  assert.equal(response.status, 501)
  assert.match(await response.text(), /start it with --allow-jobs=true/)
})
