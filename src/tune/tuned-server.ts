// The server for the measurements: a running one, or one that tune starts. Also reads how much memory the server takes.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { nearestWord } from '../base/nearest-word.ts'
import { TuneStopped } from './tune-stopped.ts'

export type TunedServer = {
  readonly url: string
  readonly isOwn: boolean
  /** The memory of all its processes in MiB; null when it is not known. */
  memoryMib(): Promise<number | null>
  /** The last output of a started server that ended by itself; else ''. */
  lastWords(): string
  /** Ends the server that was started. */
  close(): Promise<void>
}

export function runningServer(url: string, metricsUrl: string): TunedServer {
  const from = metricsUrl === '' ? `http://${hostOf(url)}:8002/metrics` : metricsUrl
  return {
    url,
    isOwn: false,
    memoryMib: () => memoryFromMetrics(from),
    lastWords: () => '',
    close: () => Promise.resolve(),
  }
}

/** Without scheme, port and path; an IPv6 address keeps its brackets. */
export const hostOf = (url: string): string => /^(?:[a-z]+:\/\/)?(\[[^\]]*\]|[^:/]*)/i.exec(url)?.[1] ?? url

/** Only the memory of the server process, without its Python Workers. */
async function memoryFromMetrics(url: string): Promise<number | null> {
  try {
    const text = await (await fetch(url, { signal: AbortSignal.timeout(5000) })).text()
    const bytes = /^process_resident_memory_bytes(?:\{[^}]*\})? (\S+)/m.exec(text)?.[1]
    return bytes === undefined ? null : Number(bytes) / 2 ** 20
  } catch {
    // A server without metrics can be tuned; only a limit on memory is refused, before the search.
    return null
  }
}

type OwnServerSettings = {
  /** `bin/galatea.js` */
  readonly launcher: string
  readonly repository: string
  readonly model: string
  readonly protocol: 'http' | 'grpc'
  readonly flags: readonly string[]
  readonly interrupted: Promise<void>
}

const tailLength = 4000
const graceMs = 15_000
const lastLines = 5

export async function startServer(settings: OwnServerSettings): Promise<TunedServer> {
  const { launcher, repository, model, protocol, flags, interrupted } = settings
  refuseUnknownModel(repository, model)
  const local = ['http', 'grpc', 'metrics'].flatMap((each) => [`--${each}-port=0`, `--${each}-address=127.0.0.1`])
  const control = ['--model-control-mode=explicit', `--load-model=${model}`]
  const args = [launcher, 'serve', `--model-repository=${repository}`, ...control, ...local, ...flags]
  // The server has a process group of its own: Ctrl-C at a terminal reaches only tune, which then ends the server.
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  const closed = once(child, 'close')
  const isEnded = (): boolean => child.exitCode !== null || child.signalCode !== null
  let [output, tail] = ['', '']
  const addressOf = (service: string): string | undefined =>
    new RegExp(`Started ${service} at (?:http://)?([^\\s"]+:\\d+)`).exec(output)?.[1]
  const stop = async (): Promise<void> => {
    if (!isEnded()) child.kill('SIGTERM')
    // A server that hangs does not react to the signal.
    const insist = setTimeout(() => child.kill('SIGKILL'), graceMs)
    await closed
    clearTimeout(insist)
    process.off('exit', killAtExit)
  }
  const listening = new Promise<Readonly<Record<'http' | 'grpc', string>>>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      const text = chunk.toString()
      // The beginning has the addresses or the error of the start; the end has the reason of a crash.
      if (output.length < 100_000) output += text
      tail = (tail + text).slice(-tailLength)
      const [http, grpc] = [addressOf('HTTPService'), addressOf('GRPCInferenceService')]
      if (http !== undefined && grpc !== undefined) resolve({ http, grpc })
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('error', reject)
    closed.then(() => reject(new TuneStopped(`the server ended before it listened:\n${complaintsIn(output)}`)), reject)
  })
  const addresses = await Promise.race([listening, interrupted.then(() => null)])
  if (addresses === null) {
    listening.catch(() => undefined)
    await stop()
    throw new TuneStopped('interrupted before the server had started')
  }
  return {
    url: addresses[protocol],
    isOwn: true,
    memoryMib: () => Promise.resolve(residentMib(child.pid ?? 0)),
    lastWords: () =>
      isEnded()
        ? `: it ended (${child.signalCode ?? child.exitCode}). Its last words:\n${tail.trimEnd().split('\n').slice(-lastLines).join('\n')}`
        : '',
    close: stop,
  }
}

/** Before a server starts, whose log would hide the reason. A repository in the cloud is left to the server. */
export function refuseUnknownModel(repository: string, model: string): void {
  const names = listed(() => readdirSync(repository))
  if (names.length === 0 || names.includes(model)) return
  const near = nearestWord(model, names)
  const hint = near === null ? '' : `; did you mean '${near}'?`
  throw new TuneStopped(`there is no model '${model}' in '${repository}'${hint}`)
}

/** The lines that name the reason, without the tables. */
function complaintsIn(output: string): string {
  const lines = output.trimEnd().split('\n')
  const complaints = lines.filter((line) => /^(?:E\d|W\d|error)/.test(line))
  return (complaints.length > 0 ? complaints : lines).join('\n')
}

/** Null without /proc. Memory that processes share counts for each of them, so the sum is rather too large. */
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
  listed(() => readdirSync(`/proc/${pid}/task`)).flatMap((thread) =>
    listed(() =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1')
        .split(' ')
        .filter((word) => word.trim() !== ''),
    ).map(Number),
  )

/** Empty when the thread or the process has ended meanwhile. */
function listed(read: () => string[]): string[] {
  try {
    return read()
  } catch {
    return []
  }
}
