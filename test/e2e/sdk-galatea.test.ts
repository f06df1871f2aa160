// The TypeScript SDK against a real Galatea process.

import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { testGrpcClient, testHttpClient, type SdkServer } from './sdk-contract.ts'
import { createSdkRepository, type SdkRepository } from './sdk-repository.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

let repository: SdkRepository
let server: ServerProcess

before(async () => {
  repository = await createSdkRepository('typescript')
  server = await startServerProcess([
    `--model-repository=${repository.path}`,
    '--model-control-mode=explicit',
    '--load-model=*',
    '--allow-client-shared-memory=true',
  ])
})
after(async () => {
  await server?.stop()
  await repository?.[Symbol.asyncDispose]()
})

const serverOf = (): SdkServer => {
  const grpc = /Started GRPCInferenceService at ([^\s"]+:\d+)/.exec(server.output)?.[1]
  assert.ok(grpc !== undefined, server.output)
  return { http: server.url, grpc, language: 'typescript' }
}

testHttpClient(serverOf)
testGrpcClient(serverOf)
