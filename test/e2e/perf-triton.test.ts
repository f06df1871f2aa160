// `galatea perf` against the real Triton, where it is installed: GALATEA_TRITON_COMMAND starts it, Triton's flags
// are added behind.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, describe } from 'node:test'
import { testPerf, type PerfServer } from './perf-contract.ts'
import { createPerfRepository, type PerfRepository } from './perf-repository.ts'

const command = process.env['GALATEA_TRITON_COMMAND'] ?? ''
const skip = command === '' ? 'GALATEA_TRITON_COMMAND does not say how to start the real Triton' : false

/** Triton takes no port 0. */
async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

async function startTriton(models: string): Promise<{ child: ChildProcess; server: PerfServer }> {
  const [http, grpc, metrics] = [await freePort(), await freePort(), await freePort()]
  const address = '127.0.0.1'
  const flags = [
    `--model-repository=${models}`,
    `--trace-config=triton,file=${path.join(models, 'trace.json')}`,
    '--model-control-mode=explicit',
    '--load-model=*',
    `--metrics-address=${address}`,
    `--metrics-port=${metrics}`,
    `--http-address=${address}`,
    `--grpc-address=${address}`,
    `--http-port=${http}`,
    `--grpc-port=${grpc}`,
  ]
  const [program = '', ...rest] = command.split(/\s+/)
  const child = spawn(program, [...rest, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  process.once('exit', () => child.kill('SIGKILL'))
  let output = ''
  await new Promise<void>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output += chunk.toString()
      if (output.includes('Started HTTPService') && output.includes('Started GRPCInferenceService')) resolve()
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('error', reject)
    child.once('close', () => reject(new Error(`Triton ended before it listened:\n${output}`)))
  })
  return { child, server: { http: `${address}:${http}`, grpc: `${address}:${grpc}`, metrics: `${address}:${metrics}` } }
}

describe('the real Triton', { skip }, () => {
  let repository: PerfRepository
  let triton: Awaited<ReturnType<typeof startTriton>>

  before(async () => {
    repository = await createPerfRepository('python')
    triton = await startTriton(repository.path)
  })
  after(async () => {
    if (triton !== undefined) {
      const closed = once(triton.child, 'close')
      triton.child.kill('SIGTERM')
      await closed
    }
    await repository?.[Symbol.asyncDispose]()
  })

  testPerf(() => triton.server)
})
