// Three real servers with unlike models, the real Envoy in front of them, and `galatea fleet` that steers it.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { runCommandLine } from '../../src/cli/main.ts'
import { createGrpcClient, type GrpcClient } from '../../src/client/grpc/grpc-client.ts'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

/** A model that gives its input back; `more` is added to its configuration. */
export type FleetModelSpec = {
  readonly versions?: readonly number[]
  readonly delayMs?: number
  readonly more?: string
}

export type FleetServer = {
  server: ServerProcess
  readonly flags: readonly string[]
  readonly url: string
  readonly upstream: string
}

type Shown = {
  readonly servers: readonly {
    readonly url: string
    readonly state: string
    readonly serving: boolean
    readonly pressure: number
  }[]
  readonly models: readonly { readonly name: string; readonly differs: boolean }[]
  readonly picks: Readonly<Record<string, number>>
  readonly envoys: readonly { readonly node: string; readonly zone: string; readonly problem: string }[]
}

export const request = JSON.stringify({ inputs: [{ name: 'INPUT0', shape: [1, 2], datatype: 'INT32', data: [4, 5] }] })
export const numbers = { INPUT0: { data: Int32Array.of(4, 5), shape: [1, 2] } }

export class FleetUnderTest {
  readonly servers: FleetServer[] = []
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'galatea-fleet-'))
  readonly #children: ChildProcess[] = []
  readonly #flags: readonly string[]
  #control: ChildProcess | null = null
  #envoy: ChildProcess | null = null
  #ports = { envoy: 0, xds: 0, http: 0 }
  grpc!: GrpcClient
  complaints = ''

  constructor(flags: readonly string[] = []) {
    this.#flags = flags
  }

  get url(): string {
    return `http://127.0.0.1:${this.#ports.envoy}`
  }

  async start(repositories: readonly Readonly<Record<string, FleetModelSpec>>[]): Promise<void> {
    this.servers.push(...(await Promise.all(repositories.map((models, i) => this.#startServer(models, i)))))
    this.#ports = { envoy: await freePort(), xds: await freePort(), http: await freePort() }
    await this.startControl()
    await this.startEnvoy()
    this.grpc = createGrpcClient({ url: `127.0.0.1:${this.#ports.envoy}` })
  }

  /** In place of the Envoy of before. */
  async startEnvoy(zone = ''): Promise<void> {
    const { xds } = this.#ports
    if (this.#envoy !== null) {
      const ended = once(this.#envoy, 'exit')
      this.#envoy.kill('SIGKILL')
      await ended
    }
    const bootstrap = path.join(this.#folder, 'envoy.json')
    let text = ''
    await runCommandLine(['fleet', '--bootstrap', `--xds-port=${xds}`, `--zone=${zone}`], { stdout: (piece) => (text += piece), stderr: () => undefined }) // prettier-ignore
    writeFileSync(bootstrap, text)
    const args = ['-c', bootstrap, '--use-dynamic-base-id', '--concurrency', '1', '-l', 'error']
    const envoy = spawn(await requireTool('envoy'), args, { stdio: ['ignore', 'ignore', 'pipe'] })
    envoy.stderr.on('data', (chunk: Buffer) => (this.complaints += chunk.toString()))
    this.#children.push(envoy)
    this.#envoy = envoy
  }

  async startControl(): Promise<void> {
    const { envoy, xds, http } = this.#ports
    const upstreams = this.servers.map(({ upstream }) => `--upstream=${upstream}`)
    const args = ['fleet', ...upstreams, `--listen=127.0.0.1:${envoy}`, `--xds-port=${xds}`, `--http-port=${http}`, ...this.#flags] // prettier-ignore
    const control = spawn(process.execPath, [path.join(projectRoot, 'bin/galatea.js'), ...args], { stdio: ['ignore', 'pipe', 'pipe'] }) // prettier-ignore
    this.#children.push(control)
    this.#control = control
    const read = (chunk: Buffer): void => void (this.complaints += chunk.toString())
    control.stdout.on('data', read)
    control.stderr.on('data', read)
    await this.shown('an answer of the control plane', () => true)
  }

  async killControl(): Promise<void> {
    const ended = once(this.#control as ChildProcess, 'exit')
    this.#control?.kill('SIGKILL')
    await ended
  }

  async restart(index: number, signal: NodeJS.Signals): Promise<void> {
    const place = this.servers[index] as FleetServer
    place.server.signal(signal)
    await place.server.exited
    place.server = await startServerProcess(place.flags)
    await this.shown(
      'the server again',
      ({ servers }) => servers.find(({ url }) => url === place.url)?.serving === true,
    )
  }

  /** The report of the fleet, once it is as wanted. */
  async shown(what: string, isWanted: (report: Shown) => boolean): Promise<Shown> {
    let last: unknown = null
    const look = async (): Promise<Shown | null> => {
      try {
        const report = (await (await fetch(`http://127.0.0.1:${this.#ports.http}/v2/fleet`)).json()) as Shown
        last = report
        return isWanted(report) ? report : null
      } catch (reason) {
        last = reason
        return null
      }
    }
    return until(look, what, { everyMs: 50, seen: () => ({ last, complaints: this.complaints.slice(-2000) }) })
  }

  async infer(model: string, body = request): Promise<number> {
    const answer = await fetch(`${this.url}/v2/models/${model}/infer`, { method: 'POST', body })
    if (answer.status !== 200) this.complaints += `\n${answer.status} ${await answer.text()}`
    else await answer.arrayBuffer()
    return answer.status
  }

  /** Inferences of a model that each server has done. */
  async counts(model: string): Promise<number[]> {
    const count = async ({ server }: FleetServer): Promise<number> => {
      const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
      const found = page.matchAll(
        new RegExp(`^nv_inference_request_success\\{model="${model}",version="\\d+"\\} (\\d+)`, 'gm'),
      )
      return [...found].reduce((sum, [, value]) => sum + Number(value), 0)
    }
    return Promise.all(this.servers.map(count))
  }

  async close(): Promise<void> {
    await this.grpc?.close()
    for (const child of this.#children) child.kill('SIGKILL')
    for (const { server } of this.servers) server.signal('SIGKILL')
    await Promise.all(this.servers.map(({ server }) => server.exited))
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #startServer(models: Readonly<Record<string, FleetModelSpec>>, index: number): Promise<FleetServer> {
    const repository = path.join(this.#folder, `models-${index}`)
    for (const [name, { versions = [1], delayMs = 0, more = '' }] of Object.entries(models)) {
      for (const version of versions) mkdirSync(path.join(repository, name, String(version)), { recursive: true })
      const config = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }
parameters { key: "execute_delay_ms" value { string_value: "${delayMs}" } }
version_policy { all {} }
${more}
`
      writeFileSync(path.join(repository, name, 'config.pbtxt'), config)
    }
    const [http, grpc] = [await freePort(), await freePort()]
    const flags = [`--model-repository=${repository}`, `--http-port=${http}`, `--grpc-port=${grpc}`, '--orca=always']
    const upstream = `http://127.0.0.1:${http}?grpc=${grpc}&zone=zone-${index}`
    return { server: await startServerProcess(flags), flags, url: `http://127.0.0.1:${http}`, upstream }
  }
}

/** Clients that ask again and again, over HTTP and gRPC, until they are stopped. */
export class SteadyLoad {
  readonly #clients: Promise<void>[]
  #isStopped = false
  answers = 0
  readonly errors: unknown[] = []

  constructor(asks: readonly (() => Promise<unknown>)[]) {
    this.#clients = asks.map((ask) => this.#run(ask))
  }

  async #run(ask: () => Promise<unknown>): Promise<void> {
    while (!this.#isStopped) {
      try {
        const status = await ask()
        if (status !== 200 && typeof status === 'number') this.errors.push(status)
      } catch (reason) {
        this.errors.push(reason)
      }
      this.answers++
      // The servers that start meanwhile need the machine too.
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }

  /** So many more answers have come. */
  async more(count: number): Promise<void> {
    const goal = this.answers + count
    await until(() => this.answers >= goal, `${count} answers`, { everyMs: 10, seen: () => this.errors.slice(0, 3) })
  }

  async stop(): Promise<unknown[]> {
    this.#isStopped = true
    await Promise.all(this.#clients)
    return this.errors
  }
}
