// A real server: `bin/galatea.js serve` as a process of its own, on a port that the system chose.

import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { until } from '../until.ts'

export const projectRoot = path.join(import.meta.dirname, '../..')
export const exampleModels = path.join(projectRoot, 'examples/models')

export type ProcessExit = { readonly code: number | null; readonly signal: NodeJS.Signals | null }

export class ServerProcess {
  readonly child: ChildProcess
  readonly pid: number
  /** `127.0.0.1:43567`, as tritonclient wants it. */
  readonly address: string
  readonly port: number
  /** `http://127.0.0.1:43567` */
  readonly url: string
  readonly #output: { text: string }
  readonly #exited: Promise<ProcessExit>

  constructor(child: ChildProcess, address: string, output: { text: string }, exited: Promise<ProcessExit>) {
    this.child = child
    this.pid = child.pid ?? 0
    this.address = address
    this.port = portOf(address)
    this.url = `http://${address}`
    this.#output = output
    this.#exited = exited
  }

  /** All it wrote so far, stdout and stderr as they came. */
  get output(): string {
    return this.#output.text
  }

  /** `127.0.0.1:43568`, of a server that speaks gRPC. */
  get grpcAddress(): string {
    const found = /Started GRPCInferenceService at (?:\w+:\/\/)?([^\s"]+:\d+)/.exec(this.output)?.[1]
    assert.ok(found !== undefined, this.output)
    return found
  }

  /** `127.0.0.1:43569`, of a server that counts. */
  get metricsAddress(): string {
    const found = /Started Metrics Service at (?:http:\/\/)?([^\s"]+:\d+)/.exec(this.output)?.[1]
    assert.ok(found !== undefined, this.output)
    return found.replace(/^0\.0\.0\.0/, '127.0.0.1')
  }

  /** `127.0.0.1:43570`, of a further port by its title in the log. */
  furtherAddress(title: string): string {
    const found = new RegExp(`Started ${title} at (?:http://)?([^\\s"]+:\\d+)`).exec(this.output)?.[1]
    assert.ok(found !== undefined, this.output)
    return found.replace(/^0\.0\.0\.0/, '127.0.0.1')
  }

  get grpcPort(): number {
    return portOf(this.grpcAddress)
  }

  get exited(): Promise<ProcessExit> {
    return this.#exited
  }

  /** Resolves once it wrote this, so often. */
  async said(text: string, times = 1): Promise<void> {
    await until(() => this.output.split(text).length > times, `'${text}' in the output`, { seen: () => this.output })
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name)
  }

  /** SIGTERM, and its exit once it has drained. Twice is fine. */
  async stop(): Promise<ProcessExit> {
    this.child.kill('SIGTERM')
    return this.#exited
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

const portOf = (address: string): number => Number(address.slice(address.lastIndexOf(':') + 1))

export type StartOptions = {
  readonly environment?: Readonly<Record<string, string>>
  /** Flags of Node itself, before the script: `--cpu-prof`. */
  readonly nodeFlags?: readonly string[]
  /** Another `bin/galatea.js` than this checkout's: that of an installed package. */
  readonly launcher?: string
  /** False: the launcher says by its name what it does. */
  readonly hasCommand?: boolean
  /** What starts Node: `['taskset', '-c', '0']`. */
  readonly prefix?: readonly string[]
  /** Where it runs, for paths relative to it; the checkout when left out. */
  readonly folder?: string
}

/** Flags of a server whose ports the system chooses. */
export const anyPort = ['--http-port=0', '--grpc-port=0', '--metrics-port=0']

/**
 * Starts `galatea serve <flags>` on ports that the system chooses and resolves when it listens. Rejects with all it wrote when it
 * ends before that. The process does not outlive this one.
 */
export const startServerProcess = async (
  flags: readonly string[],
  options: StartOptions = {},
): Promise<ServerProcess> => {
  const script = options.launcher ?? path.join(projectRoot, 'bin/galatea.js')
  const words = options.hasCommand === false ? [] : ['serve']
  const node = [process.execPath, ...(options.nodeFlags ?? []), script, ...words, ...anyPort, ...flags]
  const [command = '', ...rest] = [...(options.prefix ?? []), ...node]
  const child = spawn(command, rest, {
    cwd: options.folder ?? projectRoot,
    env: { ...process.env, ...options.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { text: '' }
  const killAtExit = (): void => void child.kill('SIGKILL')
  process.once('exit', killAtExit)
  const exited = once(child, 'close').then(([code, signal]): ProcessExit => {
    process.off('exit', killAtExit)
    return { code: code as number | null, signal: signal as NodeJS.Signals | null }
  })
  const address = await new Promise<string>((resolve, reject) => {
    const read = (chunk: Buffer): void => {
      output.text += chunk.toString()
      const started = /Started HTTPService at (?:http:\/\/)?([^\s"]+:\d+)/.exec(output.text)
      if (started?.[1] !== undefined) resolve(started[1])
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.once('error', reject)
    exited.then(
      ({ code, signal }) =>
        reject(new Error(`the server ended before it listened (${signal ?? `exit code ${code}`}):\n${output.text}`)),
      reject,
    )
  })
  return new ServerProcess(child, address, output, exited)
}
