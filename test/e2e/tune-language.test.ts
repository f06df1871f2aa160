// `galatea tune` on a real language model, and the file that it writes.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { placeModel, smolFile } from './language-model.ts'
import { projectRoot, startServerProcess } from './server-process.ts'

const models = mkdtempSync(path.join(tmpdir(), 'galatea-tune-language-'))
after(() => rmSync(models, { recursive: true, force: true }))

type Ended = { readonly code: unknown; readonly stdout: string; readonly stderr: string }

const tune = (...args: string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const command = [
      path.join(projectRoot, 'bin/galatea.js'),
      'tune',
      '-m',
      'smol',
      '--model-repository',
      models,
      ...args,
    ]
    execFile(process.execPath, command, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }))
  })

test('slots, chunk and threads of a running model are measured, and the file is what the server then has', async () => {
  const file = path.join(placeModel(await smolFile(), models, 'smol'), 'config.pbtxt')
  const config = `# mine
parameters { key: "context_length" value { string_value: "512" } }
parameters { key: "n_threads" value { string_value: "1" } }  # a guess
`
  writeFileSync(file, config)
  await using server = await startServerProcess([
    `--model-repository=${models}`,
    '--model-control-mode=explicit',
    '--load-model=smol',
  ])
  const small = ['--max-concurrency', '2', '--prompt-tokens', '8', '--output-tokens', '3', '--window-ms', '50']
  const running = ['-u', server.address, ...small]

  const refused = await tune(...running, '--latency-ms', '5')
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /'smol' is a language model, and --latency-ms is not for it: use --first-token-ms/)

  const impossible = await tune(...running, '--first-token-ms', '0.001', '--minutes', '0.001', '--apply')
  assert.equal(impossible.code, 1, impossible.stdout)
  assert.match(impossible.stdout, /1 thread: .* tokens\/s, first token p99 \d+ ms.*, above the limits/)
  assert.match(impossible.stdout, /the time was up/)
  assert.match(impossible.stderr, /nothing that was tried meets the limits/)
  assert.equal(readFileSync(file, 'utf8'), config)

  const { code, stdout, stderr } = await tune(...running, '--minutes', '0.1', '--apply')
  assert.equal(code, 0, stdout + stderr)
  const best = /^Best: (\d+) at a time, prompts .*, (\d+) threads?$/m.exec(stdout)
  assert.ok(best !== null, stdout)
  assert.match(stdout, /stays as it is|^Written: /m)
  assert.match(readFileSync(file, 'utf8'), /^# mine$/m)
  const answer = await fetch(`${server.url}/v2/models/smol/config`)
  const { parameters } = (await answer.json()) as { parameters: Record<string, { string_value: string }> }
  assert.equal(parameters['context_length']?.string_value, '512')
  assert.equal(parameters['n_threads']?.string_value, best[2])
  assert.equal(parameters['max_sequences']?.string_value ?? '16', best[1])
})
