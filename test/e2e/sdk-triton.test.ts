// The TypeScript SDK against the real Triton, where it is installed.

import { after, before, describe } from 'node:test'
import { skipsTriton, startRealTriton, type RealTriton } from './real-triton.ts'
import { testGrpcClient, testHttpClient, type SdkServer } from './sdk-contract.ts'
import { createSdkRepository, type SdkRepository } from './sdk-repository.ts'

describe('the real Triton', { skip: skipsTriton }, () => {
  let repository: SdkRepository
  let triton: RealTriton

  before(async () => {
    repository = await createSdkRepository('python')
    triton = await startRealTriton(repository.path)
  })
  after(async () => {
    await triton?.[Symbol.asyncDispose]()
    await repository?.[Symbol.asyncDispose]()
  })

  const serverOf = (): SdkServer => ({ http: triton.http, grpc: triton.grpc, language: 'python' })
  testHttpClient(serverOf)
  testGrpcClient(serverOf)
})
