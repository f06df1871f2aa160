// The server that is tuned on: one that runs, or one that is started for it; and how much memory it takes.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'

export type TunedServer = {
  readonly url: string
  readonly isOwn: boolean
  /** Of all its processes, in MiB; null when it cannot be known. */
  memoryMib(): Promise<number | null>
  /** Ends what was started. */
  close(): Promise<void>
}

export function runningServer(url: string, metricsUrl: string): TunedServer {
  const host = url.replace(/^[a-z]+:\/\//, '').replace(/:\d+.*$/, '')
  const from = metricsUrl === '' ? `http://${host}:8002/metrics` : metricsUrl
  return { url, isOwn: false, memoryMib: () => memoryFromMetrics(from), close: () => Promise.resolve() }
}

/** The server process only: what its Python Workers take is not in there. */
async function memoryFromMetrics(url: string): Promise<number | null> {
  try {
    const text = await (await fetch(url, { signal: AbortSignal.timeout(5000) })).text()
    const bytes = /^process_resident_memory_bytes(?:\{[^}]*\})? (\S+)/m.exec(text)?.[1]
    return bytes === undefined ? null : Number(bytes) / 2 ** 20
  } catch {
    // A server without metrics can be tuned; a limit on memory is refused before it begins.
    return null
  }
}

export type OwnServerSettings = {
  /** `bin/galatea.js` */
  readonly launcher: string
  readonly repository: string
  readonly model: string
  readonly protocol: 'http' | 'grpc'
  readonly flags: readonly string[]
}

export async function startServer(settings: OwnServerSettings): Promise<TunedServer> {
  const { launcher, repository, model, protocol, flags } = settings
  const local = ['http', 'grpc', 'metrics'].flatMap((each) => [`--${each}-port=0`, `--${each}-address=127.0.0.1`])
  const control = ['--model-control-mode=explicit', `--load-model=${model}`]
  const args = [launcher, 'serve', `--model-repository=${repository}`, ...control, ...local, ...flags]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  const closed = once(child, 'close')
  let output = ''
  const addressOf = (service: string): string | undefined =>
    new RegExp(`Started ${service} at (?:http://)?([^\\s"]+:\\d+)`).exec(output)?.[1]
  const addresses = await new Promise<Readonly<Record<'http' | 'grpc', string>>>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      // Only the beginning matters: the addresses, or why there are none.
      if (output.length < 100_000) output += chunk.toString()
      const [http, grpc] = [addressOf('HTTPService'), addressOf('GRPCInferenceService')]
      if (http !== undefined && grpc !== undefined) resolve({ http, grpc })
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('error', reject)
    closed.then(() => reject(new Error(`the server ended before it listened:\n${output}`)), reject)
  })
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    await closed
    process.off('exit', killAtExit)
  }
  return {
    url: addresses[protocol],
    isOwn: true,
    memoryMib: () => Promise.resolve(residentMib(child.pid ?? 0)),
    close: stop,
  }
}

/** Null where there is no /proc. */
function residentMib(pid: number): number | null {
  try {
    const resident = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
    return childrenOf(pid).reduce((sum, child) => sum + (residentMib(child) ?? 0), Number(resident ?? 0) / 1024)
  } catch {
    return null
  }
}

/** A process lists its children thread by thread, under the one that started them. */
const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
    try {
      const text = readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').trim()
      return text === '' ? [] : text.split(' ').map(Number)
    } catch {
      // The thread ended in between.
      return []
    }
  })
