// NVIDIA's own shared memory library against a real server process.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createIdentityRepository, type TemporaryRepository } from './identity-repository.ts'
import { reportPythonChecks } from './python-checks.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

let repository: TemporaryRepository
let server: ServerProcess

before(async () => {
  repository = await createIdentityRepository()
  server = await startServerProcess([`--model-repository=${repository.path}`, '--allow-client-shared-memory=true'])
})

after(async () => {
  await server?.stop()
  await repository?.[Symbol.asyncDispose]()
})

test('tritonclient.utils.shared_memory', (t) => reportPythonChecks(t, 'shared_memory_client.py', server.address))

test('after all of it the server still runs and ends with code 0', async () => {
  assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.output)
})
