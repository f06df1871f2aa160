// `galatea perf` against a running Galatea.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { constants } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { figure, perf, testPerf, type PerfServer } from './perf-contract.ts'
import { createPerfRepository, type PerfRepository } from './perf-repository.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

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
      `--trace-config=triton,file=${path.join(repository.path, 'trace.json')}`,
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

  test('windows of a number of requests have that many that were answered well, whatever failed beside them', async () => {
    const data = path.join(repository.path, 'half.json')
    await writeFile(data, JSON.stringify({ data: [{ INPUT0: [1, 2] }, { INPUT0: [-1, 2] }] }))
    const args = ['--measurement-mode', 'count_windows', '--measurement-request-count', '75', '-s', '1000000']
    const run = await perf('-u', addresses.http, '-m', 'picky', '--request-rate-range', '100', '--input-data', data, ...args) // prettier-ignore
    assert.equal(run.code, 0, run.stderr)
    assert.ok(figure(run, 'Request count') >= 225, run.stdout)
  })

  test('a load that does not get stable is in the reports all the same, and the page says so', async () => {
    const [csv, page] = [path.join(repository.path, 'unstable.csv'), path.join(repository.path, 'unstable.html')]
    // No two windows are equal to a billionth.
    const args = ['--concurrency-range', '1', '-p', '60', '-r', '3', '-s', '0.0000001', '-f', csv, '--report', page]
    const run = await perf('-u', addresses.http, '-m', 'rows', '--shape', 'INPUT0:4', ...args)
    assert.equal(run.code, 2, run.stderr)
    assert.equal((await readFile(csv, 'utf8')).trim().split('\n').length, 2)
    assert.match(await readFile(page, 'utf8'), /1 \(not stable\)/)
  })

  /** Runs the command until the model has been asked, sends it the signal, and waits for its end. */
  async function interrupted(signal: NodeJS.Signals, ...more: string[]): Promise<{ code: number; output: string }> {
    const script = path.join(projectRoot, 'bin/galatea.js')
    const args = ['perf', '-m', 'rows', '--shape', 'INPUT0:4', '-u', addresses.http, '-p', '600000', ...more]
    const child = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const closed = once(child, 'close')
    const count = async (): Promise<number> => {
      const response = await fetch(`http://${addresses.http}/v2/models/rows/stats`)
      const { model_stats: stats } = (await response.json()) as { model_stats: { inference_count: number }[] }
      return stats[0]?.inference_count ?? 0
    }
    const before = await count()
    const isAsked = async (): Promise<boolean> => {
      assert.equal(child.exitCode, null, output)
      return (await count()) >= before + 10
    }
    await until(isAsked, 'ten inferences', { seen: () => output })
    child.kill(signal)
    const [code] = (await closed) as [number]
    return { code, output }
  }

  test('Ctrl-C ends the window under way and prints what there is', async () => {
    const { code, output } = await interrupted('SIGINT')
    assert.equal(code, 0, output)
    assert.match(
      output,
      /Waiting for in-flight inferences to complete\.\n[^]*Request count: \d+[^]*Concurrency: 1, throughput/,
    )
  })

  test('Ctrl-C before anything was measured is no error either', async () => {
    const { code, output } = await interrupted('SIGINT', '--warmup-request-count', '100000000')
    assert.equal(code, 0, output)
    assert.match(output, /Interrupted: nothing was measured at this load/)
  })

  test('a process that is told to end leaves no shared memory behind, and says by its status why it ended', async () => {
    const { code, output } = await interrupted('SIGTERM', '--shared-memory', 'system')
    assert.equal(code, 128 + constants.signals.SIGTERM, output)
    assert.match(output, /Request count: \d+/)
    const status = await fetch(`http://${addresses.http}/v2/systemsharedmemory/status`)
    assert.deepEqual(await status.json(), [])
  })
})
