// NVIDIA's own Python clients for gRPC against a real server process.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { createIdentityRepository, type TemporaryRepository } from './identity-repository.ts'
import { reportPythonChecks } from './python-checks.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'
import { Certificates } from '../certificates.ts'

/** Answers COUNT times: 0, 1, 2… The endless one goes on until its client gives up. */
const repeatModel = (isEndless: boolean): string => `
import { tensor } from 'galatea/model'
export const config = {
  decoupled: true,
  input: [{ name: 'COUNT', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'INDEX', dataType: 'INT32', dims: [1] }],
}
export async function* infer(request) {
  const count = ${isEndless ? 'Infinity' : "request.input('COUNT').asInt32()[0]"}
  for (let index = 0; index < count; index++) {
    yield [tensor('INDEX', 'INT32', [1], Int32Array.of(index))]
    ${isEndless ? 'await new Promise((resolve) => setTimeout(resolve, 5))\n    if (request.signal.aborted) return' : ''}
  }
}
`

let repository: TemporaryRepository
let streaming: Awaited<ReturnType<typeof temporaryRepository>>
let server: ServerProcess

before(async () => {
  repository = await createIdentityRepository()
  streaming = await temporaryRepository({
    'repeat/1/model.ts': repeatModel(false),
    'endless/1/model.ts': repeatModel(true),
  })
  const roots = [repository.path, exampleModels, streaming.root]
  server = await startServerProcess(roots.map((root) => `--model-repository=${root}`))
})

after(async () => {
  await server?.stop()
  await repository?.[Symbol.asyncDispose]()
  await streaming?.remove()
})

test('tritonclient.grpc', (t) => reportPythonChecks(t, 'grpc_client.py', server.grpcAddress))

test('tritonclient.grpc.aio', (t) => reportPythonChecks(t, 'grpc_aio_client.py', server.grpcAddress))

test('after all of it the server still runs and ends with code 0', async () => {
  assert.deepEqual(await server.stop(), { code: 0, signal: null }, server.output)
})

test('tritonclient.grpc over mutual TLS', async (t) => {
  const { folder } = new Certificates().make('ca').make('server', 'ca').make('client', 'ca')
  await using secure = await startServerProcess([
    `--model-repository=${exampleModels}`,
    '--grpc-use-ssl-mutual=true',
    `--grpc-server-cert=${folder}/server.crt`,
    `--grpc-server-key=${folder}/server.key`,
    `--grpc-root-cert=${folder}/ca.crt`,
    '--grpc-infer-response-compression-level=medium',
  ])
  await reportPythonChecks(t, 'grpc_tls_client.py', `${secure.grpcAddress},${folder}`)
})
