// A real server process on a private copy of a recorded repository, with Triton's defaults and a case's flags.

import { spawn, type ChildProcess } from 'node:child_process'
import { createWriteStream, existsSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { exchange } from './http-exchange.ts'
import { goldenFolder, type RecordedSetup } from './recorded-case.ts'

export type Ports = { readonly http: number; readonly grpc: number; readonly metrics: number }

const projectFolder = path.join(goldenFolder, '../../..')

async function freePorts(): Promise<Ports> {
  const servers = await Promise.all(
    [0, 1, 2].map(
      () =>
        new Promise<net.Server>((resolve) => {
          const server = net.createServer().listen(0, '127.0.0.1', () => resolve(server))
        }),
    ),
  )
  const [http, grpc, metrics] = servers.map((server) => (server.address() as net.AddressInfo).port) as [
    number,
    number,
    number,
  ]
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return { http, grpc, metrics }
}

export class ServerUnderReplay {
  readonly ports: Ports
  readonly work: string
  readonly repository: string
  readonly logPath: string
  readonly #process: ChildProcess
  readonly #exit: Promise<number | null>

  private constructor(ports: Ports, work: string, process: ChildProcess) {
    this.ports = ports
    this.work = work
    this.repository = path.join(work, 'repo')
    this.logPath = path.join(work, 'server.log')
    this.#process = process
    this.#exit = new Promise((resolve) => process.once('exit', (code) => resolve(code)))
  }

  static async start(setup: RecordedSetup): Promise<ServerUnderReplay> {
    const work = await mkdtemp(path.join(tmpdir(), 'galatea-golden-'))
    const repository = path.join(work, 'repo')
    await cp(path.join(goldenFolder, 'repositories', setup.repository), repository, { recursive: true })
    // Empty folders do not survive version control: a file says which to make.
    for (const model of await readdir(repository)) {
      const list = path.join(repository, model, '.make-dirs')
      if (!existsSync(list)) continue
      for (const folder of readFileSync(list, 'utf8').split(/\s+/).filter(Boolean)) {
        await mkdir(path.join(repository, model, folder), { recursive: true })
      }
      await rm(list)
    }
    const ports = await freePorts()
    const flags = (setup.flags ?? []).map((flag) => flag.replaceAll('{REPO}', repository).replaceAll('{WORK}', work))
    const python = process.env['GALATEA_TEST_PYTHON'] ?? path.join(projectFolder, '.cache/python/bin/python')
    const child = spawn(
      process.execPath,
      [
        path.join(projectFolder, 'bin/galatea.js'),
        '--triton-defaults',
        `--backend-config=python,interpreter=${python}`,
        `--model-repository=${repository}`,
        `--http-port=${ports.http}`,
        `--grpc-port=${ports.grpc}`,
        `--metrics-port=${ports.metrics}`,
        '--http-address=127.0.0.1',
        '--grpc-address=127.0.0.1',
        ...flags,
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    )
    const server = new ServerUnderReplay(ports, work, child)
    const log = createWriteStream(server.logPath)
    child.stdout?.pipe(log, { end: false })
    child.stderr?.pipe(log, { end: false })
    return server
  }

  get hasExited(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null
  }

  /** True when the server has come as far as the setup says; false when it ended, or took a minute. */
  async wait(until: 'ready' | 'live' | 'exit'): Promise<boolean> {
    for (let i = 0; i < 1200; i++) {
      if (this.hasExited) return until === 'exit'
      if (until !== 'exit') {
        const answer = await exchange(this.ports.http, { method: 'GET', path: `/v2/health/${until}` }).catch(() => null)
        if (answer?.status === 200) return true
      }
      await delay(50)
    }
    return false
  }

  async exitCode(sendsSignal: boolean): Promise<number | null> {
    if (sendsSignal && !this.hasExited) this.#process.kill('SIGTERM')
    return this.#exit
  }

  async stop(): Promise<void> {
    if (!this.hasExited) {
      this.#process.kill('SIGTERM')
      const isGone = await Promise.race([this.#exit.then(() => true), delay(10_000, false, { ref: false })])
      if (!isGone) {
        this.#process.kill('SIGKILL')
        await this.#exit
      }
    }
    await rm(this.work, { recursive: true, force: true })
  }
}
