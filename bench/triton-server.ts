// A real Triton to compare with, for whoever has one. GALATEA_TRITON_COMMAND is the command that starts it, with
// {repository} and {port} where they belong:
//   GALATEA_TRITON_COMMAND='tritonserver --model-repository={repository} --http-port={port} --allow-grpc=false
//     --allow-metrics=false'

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { onCore } from './pinning.ts'
import type { Subject } from './subjects.ts'

/** '' when there is none. */
export const tritonCommand = process.env['GALATEA_TRITON_COMMAND'] ?? ''

const readyPollMs = 10

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

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

export const startTriton = async (repository: string): Promise<Subject> => {
  const port = await freePort()
  const words = tritonCommand.replaceAll('{repository}', repository).replaceAll('{port}', String(port)).split(/\s+/)
  const [command = '', ...rest] = [...onCore(0), ...words]
  const child = spawn(command, rest, { stdio: 'ignore' })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  await becomesReady(port, () => child.exitCode !== null)
  return {
    pid: child.pid ?? 0,
    port,
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
      process.off('exit', killAtExit)
    },
  }
}
