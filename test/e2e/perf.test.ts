// `galatea perf` against a running Galatea.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { testPerf, type PerfServer } from './perf-contract.ts'
import { createPerfRepository, type PerfRepository } from './perf-repository.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

describe('Galatea', () => {
  let repository: PerfRepository
  let server: ServerProcess
  let addresses: PerfServer

  before(async () => {
    repository = await createPerfRepository('typescript')
    server = await startServerProcess([
      `--model-repository=${repository.path}`,
      '--http-address=127.0.0.1',
      '--allow-client-shared-memory=true',
    ])
    const at = (service: string): string =>
      new RegExp(`Started ${service} at (?:http://)?([^\\s"]+:\\d+)`).exec(server.output)?.[1] ?? ''
    addresses = { http: server.address, grpc: at('GRPCInferenceService'), metrics: at('Metrics Service') }
  })
  after(async () => {
    await server?.stop()
    await repository?.[Symbol.asyncDispose]()
  })

  testPerf(() => addresses)

  test('Ctrl-C ends the window under way and prints what there is', async () => {
    const script = path.join(projectRoot, 'bin/galatea.js')
    const args = ['perf', '-m', 'rows', '--shape', 'INPUT0:4', '-u', addresses.http, '-p', '600000']
    const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const closed = once(child, 'close')
    const count = async (): Promise<number> => {
      const response = await fetch(`http://${addresses.http}/v2/models/rows/stats`)
      const { model_stats: stats } = (await response.json()) as { model_stats: { inference_count: number }[] }
      return stats[0]?.inference_count ?? 0
    }
    const before = await count()
    while ((await count()) < before + 10) assert.equal(child.exitCode, null, output)
    child.kill('SIGINT')
    const [code] = (await closed) as [number | null]
    assert.equal(code, 0, output)
    assert.match(
      output,
      /Waiting for in-flight inferences to complete\.\n[^]*Request count: \d+[^]*Concurrency: 1, throughput/,
    )
  })
})
