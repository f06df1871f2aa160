// A real Prometheus that scrapes a server under test, with the rules of deploy/observability.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parse, stringify } from 'yaml'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { projectRoot } from './server-process.ts'

export const observabilityFolder = path.join(projectRoot, 'deploy/observability')

export type Sample = { readonly metric: Readonly<Record<string, string>>; readonly value: number }
export type Series = {
  readonly metric: Readonly<Record<string, string>>
  readonly points: readonly (readonly [seconds: number, value: number])[]
}

type Config = {
  global: Record<string, string>
  rule_files: string[]
  alerting?: { alertmanagers: { static_configs: { targets: string[] }[] }[] }
  scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[]
}

export class PrometheusProcess {
  readonly url: string
  readonly #child: ChildProcess
  readonly #folder: string

  private constructor(url: string, child: ChildProcess, folder: string) {
    this.url = url
    this.#child = child
    this.#folder = folder
  }

  /** With the prometheus.yml that we ship, but for the target and for how often it looks; `more` is a file of rules, and who hears of their alerts. */
  static async start(
    target: string,
    more?: { readonly rules: string; readonly alertmanager: string },
  ): Promise<PrometheusProcess> {
    const program = await requireTool('prometheus')
    const folder = await mkdtemp(path.join(tmpdir(), 'galatea-prometheus-'))
    const config = parse(await readFile(path.join(observabilityFolder, 'prometheus.yml'), 'utf8')) as Config
    config.global = { scrape_interval: '250ms', evaluation_interval: '500ms' }
    config.rule_files = config.rule_files.map((file) => path.join(observabilityFolder, file))
    if (more !== undefined) {
      config.rule_files.push('more.yml')
      config.alerting = { alertmanagers: [{ static_configs: [{ targets: [more.alertmanager] }] }] }
      await writeFile(path.join(folder, 'more.yml'), more.rules)
    }
    for (const job of config.scrape_configs) job.static_configs = [{ targets: [target] }]
    await writeFile(path.join(folder, 'prometheus.yml'), stringify(config))
    // It does not tell which port it got when it is given 0, so a free one is found for it; another may be faster.
    for (let attempt = 0; ; attempt++) {
      const started = await tryStart(program, folder, await freePort())
      if (typeof started !== 'string') return new PrometheusProcess(started.url, started.child, folder)
      if (attempt === 4) throw new Error(`prometheus does not start:\n${started}`)
    }
  }

  async query(expression: string): Promise<Sample[]> {
    type Found = { metric: Record<string, string>; value: [number, string] }
    const { result } = await this.#ask<{ result: Found[] }>('query', { query: expression })
    return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
  }

  async queryRange(expression: string, startMs: number, endMs: number, stepSeconds: number): Promise<Series[]> {
    type Found = { metric: Record<string, string>; values: [number, string][] }
    const range = { start: String(startMs / 1e3), end: String(endMs / 1e3), step: String(stepSeconds) }
    const { result } = await this.#ask<{ result: Found[] }>('query_range', { query: expression, ...range })
    return result.map(({ metric, values }) => ({ metric, points: values.map(([at, value]) => [at, Number(value)]) }))
  }

  get(path: string): Promise<unknown> {
    return this.#ask(path, {})
  }

  async #ask<Data>(path: string, parameters: Record<string, string>): Promise<Data> {
    const answer = await fetch(`${this.url}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`)
    const { status, data, error } = (await answer.json()) as { status: string; data: Data; error?: string }
    if (status !== 'success') throw new Error(`${parameters['query'] ?? path}: ${error}`)
    return data
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null) {
      const exited = once(this.#child, 'exit')
      this.#child.kill('SIGTERM')
      await exited
    }
    await rm(this.#folder, { recursive: true, force: true })
  }
}

async function tryStart(
  program: string,
  folder: string,
  port: number,
): Promise<{ url: string; child: ChildProcess } | string> {
  const child = spawn(
    program,
    [
      '--config.file=prometheus.yml',
      '--storage.tsdb.path=data',
      '--enable-feature=exemplar-storage',
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] },
  )
  process.once('exit', () => child.kill('SIGKILL'))
  let output = ''
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', () => resolve(output))
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      if (output.includes('Server is ready to receive web requests'))
        resolve({ url: `http://127.0.0.1:${port}`, child })
    })
  })
}
