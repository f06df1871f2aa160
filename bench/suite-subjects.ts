// The servers that the suite compares, and the cores they keep to.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from '../test/free-port.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { onCore } from './pinning.ts'
import { familyOf } from './process-usage.ts'
import { startBareEcho } from './subjects.ts'
import { startTriton, tritonCommand } from './triton-server.ts'
import type { Workload } from './suite-workloads.ts'

export type SuiteSubject = AsyncDisposable & {
  readonly name: string
  readonly pid: number
  readonly port: number
  /** 0 when it speaks no gRPC. */
  readonly grpcPort: number
  /** Whether it runs the model, or only answers. */
  readonly isServer: boolean
}

export const galateaName = 'Galatea'
export const tritonName = 'Triton'
export const tritonPairName = 'Triton, 2 instances'
export const echoName = 'node:http echo'
export const nginxName = 'nginx'

export async function startGalateaSubject(repository: string, launcher: string): Promise<SuiteSubject> {
  const flags = [`--model-repository=${repository}`, '--allow-client-shared-memory=true', '--http-address=127.0.0.1']
  const python = process.env['GALATEA_TEST_PYTHON'] ?? ''
  const server = await startServerProcess([...flags, ...pythonFlags(python)], { prefix: onCore(0), launcher })
  const stop = async (): Promise<void> => void (await server.stop())
  return {
    name: galateaName,
    pid: server.pid,
    port: server.port,
    grpcPort: server.grpcPort,
    isServer: true,
    [Symbol.asyncDispose]: stop,
  }
}

export const pythonFlags = (python: string): string[] =>
  python === '' ? [] : [`--backend-config=python,python-executable=${python}`]

/** Null when there is none, or when it cannot run the workload. */
export async function startTritonSubject(
  repository: string,
  name: string,
  note: (text: string) => void,
): Promise<SuiteSubject | null> {
  if (tritonCommand === '') return null
  try {
    const triton = await startTriton(repository)
    const isGrpc = !tritonCommand.includes('--allow-grpc=false')
    return {
      name,
      pid: triton.pid,
      port: triton.port,
      grpcPort: isGrpc ? triton.grpcPort : 0,
      isServer: true,
      [Symbol.asyncDispose]: () => triton[Symbol.asyncDispose](),
    }
  } catch {
    note('Triton here cannot run it: it has no backend for it')
    return null
  }
}

export async function startEchoSubject(): Promise<SuiteSubject> {
  const echo = await startBareEcho()
  return {
    name: echoName,
    pid: echo.pid,
    port: echo.port,
    grpcPort: 0,
    isServer: false,
    [Symbol.asyncDispose]: () => echo[Symbol.asyncDispose](),
  }
}

/** One worker that answers every request with so many bytes of its own; null when nginx is not installed. */
export async function startNginxSubject(workload: Workload): Promise<SuiteSubject | null> {
  if (spawnSync('nginx', ['-v'], { stdio: 'ignore' }).status !== 0) return null
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-nginx-'))
  const port = await freePort()
  const answer = 'x'.repeat(workload.outputs.reduce((sum, [, bytes]) => sum + bytes, 150))
  const config = `worker_processes 1; daemon off; pid ${root}/pid; error_log ${root}/error.log;
events { worker_connections 1024; }
http { access_log off; keepalive_requests 1000000000; client_body_temp_path ${root}/body; proxy_temp_path ${root}/proxy;
  fastcgi_temp_path ${root}/fastcgi; uwsgi_temp_path ${root}/uwsgi; scgi_temp_path ${root}/scgi;
  server { listen 127.0.0.1:${port}; location / { return 200 "${answer}"; } } }
`
  await writeFile(path.join(root, 'nginx.conf'), config)
  const [command, ...rest] = [...onCore(0), 'nginx', '-p', root, '-c', path.join(root, 'nginx.conf')]
  const child = spawn(command, rest, { stdio: 'ignore' })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  while (!(await answers(port))) if (child.exitCode !== null) throw new Error('nginx ended before it answered')
  return {
    name: nginxName,
    pid: child.pid ?? 0,
    port,
    grpcPort: 0,
    isServer: false,
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
      process.off('exit', killAtExit)
      await rm(root, { recursive: true, force: true })
    },
  }
}

async function answers(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${port}/`)).ok
  } catch {
    return false
  }
}

/** Lets a server that was started on one core use them all, or the other way round. */
export function placeOn(subject: SuiteSubject, placing: 'pinned' | 'unpinned'): void {
  if (onCore(0).length === 0) return
  const cores = placing === 'pinned' ? '0' : `0-${availableParallelism() - 1}`
  for (const pid of familyOf(subject.pid)) spawnSync('taskset', ['-a', '-p', '-c', cores, String(pid)])
}
