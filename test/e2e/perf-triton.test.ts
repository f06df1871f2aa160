// `galatea perf` against the real Triton, where it is installed.

import path from 'node:path'
import { after, before, describe } from 'node:test'
import { testPerf } from './perf-contract.ts'
import { createPerfRepository, type PerfRepository } from './perf-repository.ts'
import { skipsTriton, startRealTriton, type RealTriton } from './real-triton.ts'

describe('the real Triton', { skip: skipsTriton }, () => {
  let repository: PerfRepository
  let triton: RealTriton

  before(async () => {
    repository = await createPerfRepository('python')
    const traceFile = path.join(repository.path, 'trace.json')
    triton = await startRealTriton(repository.path, `--trace-config=triton,file=${traceFile}`)
  })
  after(async () => {
    await triton?.[Symbol.asyncDispose]()
    await repository?.[Symbol.asyncDispose]()
  })

  testPerf(() => triton)
})
