// The TypeScript SDK against a real Galatea process.

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
    '--allow-model-uploads',
    '--load-model=*',
    '--allow-client-shared-memory=true',
  ])
})
after(async () => {
  await server?.stop()
  await repository?.[Symbol.asyncDispose]()
})

const serverOf = (): SdkServer => ({ http: server.url, grpc: server.grpcAddress, language: 'typescript' })

testHttpClient(serverOf)
testGrpcClient(serverOf)
