// A public fuzzer of others sends what the server's OpenAPI document allows: every answer must have a status, a content type and a form that
// the document says.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { requireTool } from '../tool.ts'
import { exampleModels, startServerProcess } from './server-process.ts'

const checks = 'status_code_conformance,content_type_conformance,response_schema_conformance'
/** Answers that end only when the client goes. */
const endless = '/(live|logs|generate_stream)$'

const fuzz = (program: string, folder: string, url: string): Promise<string> => {
  const flags = ['--phases=fuzzing', '--max-examples=12', '--seed=1', `--checks=${checks}`, '--continue-on-failure']
  const where = [`${url}/v2/openapi.json`, `--exclude-path-regex=${endless}`]
  // Its notes of what it found lie in the folder where it runs.
  return new Promise((resolve, reject) => {
    execFile(program, ['run', ...where, ...flags], { cwd: folder }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout)
      else reject(new Error(stdout + stderr))
    })
  })
}

const kinds: readonly { readonly of: string; readonly flags: readonly string[] }[] = [
  { of: 'KServe v1 and all that can be switched on', flags: ['--allow-client-shared-memory=true'] },
  { of: 'TensorFlow Serving', flags: ['--allow-tfserving=true', '--tfserving-port=0'] },
]

for (const { of, flags } of kinds) {
  test(`schemathesis finds no answer that the document does not have: ${of}`, async (context) => {
    const program = await requireTool('schemathesis')
    const folder = await mkdtemp(path.join(tmpdir(), 'galatea-openapi-'))
    context.after(() => rm(folder, { recursive: true, force: true }))
    const actions = path.join(folder, 'actions.yaml')
    await writeFile(actions, 'rules: []\n')
    await using server = await startServerProcess([
      `--model-repository=${exampleModels}`,
      '--allow-jobs=true',
      `--jobs-dir=${folder}`,
      '--allow-fault-injection=true',
      '--cost-per-hour=1.2',
      `--actions=${actions}`,
      ...flags,
    ])
    const report = await fuzz(program, folder, server.url)
    const tested = Number(/Tested: (\d+)/.exec(report)?.[1])
    assert.ok(tested > 100, report)
    const generated = Number(/(\d+) generated/.exec(report)?.[1])
    assert.ok(generated > 500, report)
  })
}
