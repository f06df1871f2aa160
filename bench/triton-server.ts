// A real Triton to compare with, for whoever has one. GALATEA_TRITON_COMMAND is the command that starts it: `tritonserver`.
// Its flags are added behind, unless the command says itself where {repository}, {port} and {grpc-port} belong.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from '../test/free-port.ts'
import { onCore } from './pinning.ts'
import type { Subject } from './subjects.ts'

/** '' when there is none. */
export const tritonCommand = process.env['GALATEA_TRITON_COMMAND'] ?? ''

const readyPollMs = 10

const isReady = async (port: number): Promise<boolean> => {
  try {
    return (await fetch(`http://127.0.0.1:${port}/v2/health/ready`)).ok
  } catch {
    return false
  }
}

/** Resolves when the server says that it is ready. */
export const becomesReady = async (port: number, hasEnded: () => boolean = () => false): Promise<void> => {
  while (!(await isReady(port))) {
    if (hasEnded()) throw new Error('the server ended before it was ready')
    await pause(readyPollMs)
  }
}

/** Flags that the command does not have itself. */
const flagsBehind = (repository: string): string[] => {
  const flags: [name: string, value: string][] = [
    ['model-repository', repository],
    ['http-port', '{port}'],
    ['http-address', '127.0.0.1'],
    ['grpc-port', '{grpc-port}'],
    ['grpc-address', '127.0.0.1'],
    ['allow-metrics', 'false'],
  ]
  const isGiven = (name: string): boolean =>
    tritonCommand.includes(`--${name}`) || (name.startsWith('grpc') && tritonCommand.includes('--allow-grpc=false'))
  return flags.filter(([name]) => !isGiven(name)).map(([name, value]) => `--${name}=${value}`)
}

export type TritonSubject = Subject & { readonly grpcPort: number }

export const startTriton = async (repository: string): Promise<TritonSubject> => {
  const port = await freePort()
  const grpcPort = await freePort()
  const words = [...tritonCommand.trim().split(/\s+/), ...flagsBehind(repository)].map((word) =>
    word
      .replaceAll('{repository}', repository)
      .replaceAll('{port}', String(port))
      .replaceAll('{grpc-port}', String(grpcPort)),
  )
  const [command = '', ...rest] = [...onCore(0), ...words]
  const child = spawn(command, rest, { stdio: 'ignore' })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  try {
    await becomesReady(port, () => child.exitCode !== null)
  } catch (reason) {
    process.off('exit', killAtExit)
    throw reason
  }
  return {
    pid: child.pid ?? 0,
    port,
    grpcPort,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, 'exit')
        child.kill('SIGTERM')
        await exited
      }
      process.off('exit', killAtExit)
    },
  }
}
