// The real Triton, for tests that run against it where it is installed: GALATEA_TRITON_COMMAND starts it, its flags are added
// behind.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { freePort } from '../free-port.ts'

const command = process.env['GALATEA_TRITON_COMMAND'] ?? ''

/** Why tests with it do not run; false when they do. */
export const skipsTriton = command === '' ? 'GALATEA_TRITON_COMMAND does not say how to start the real Triton' : false

/** Addresses, as `127.0.0.1:43567`. */
export type RealTriton = AsyncDisposable & { readonly http: string; readonly grpc: string; readonly metrics: string }

/** With all models of the folder; resolves when it listens. */
export async function startRealTriton(models: string, ...more: readonly string[]): Promise<RealTriton> {
  const [http, grpc, metrics] = [await freePort(), await freePort(), await freePort()]
  const host = '127.0.0.1'
  const flags = [
    `--model-repository=${models}`,
    '--model-control-mode=explicit',
    '--load-model=*',
    `--metrics-address=${host}`,
    `--metrics-port=${metrics}`,
    `--http-address=${host}`,
    `--grpc-address=${host}`,
    `--http-port=${http}`,
    `--grpc-port=${grpc}`,
    ...more,
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
  return {
    http: `${host}:${http}`,
    grpc: `${host}:${grpc}`,
    metrics: `${host}:${metrics}`,
    [Symbol.asyncDispose]: async () => {
      const closed = once(child, 'close')
      child.kill('SIGTERM')
      await closed
    },
  }
}
