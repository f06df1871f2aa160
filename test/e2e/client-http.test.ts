// NVIDIA's own Python client against a real server process: what a team that moves from Triton keeps using.

import assert from 'node:assert/strict'
import { cp } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { createIdentityRepository, type TemporaryRepository } from './identity-repository.ts'
import { reportPythonChecks } from './python-checks.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

let repository: TemporaryRepository
let server: ServerProcess

before(async () => {
  repository = await createIdentityRepository()
  await cp(path.join(repository.path, 'identity_fp32'), path.join(repository.path, 'größe in cm'), { recursive: true })
  server = await startServerProcess([`--model-repository=${repository.path}`, `--model-repository=${exampleModels}`])
})

after(async () => {
  await server?.stop()
  await repository?.[Symbol.asyncDispose]()
})

test('tritonclient.http', (t) => reportPythonChecks(t, 'sync_client.py', server.address))

test('tritonclient.http.aio', (t) => reportPythonChecks(t, 'aio_client.py', server.address))

test('after all of it the server still runs and ends with code 0', async () => {
  assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.output)
})
