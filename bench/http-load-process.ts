// Drives bench/http-load.ts: opens its connections, has it run, and reads the server's processor time around each run.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { LoadOrder, LoadReport, LoadResult } from './http-load.ts'
import { behindOthers, onCore } from './pinning.ts'
import { cpuSecondsOf } from './process-usage.ts'

/**
 * `statuses`: one of these every answer must have; left out: 200. `core`: where the load runs; left out: 1. `yields`: the load gives its core up
 * to a load beside it that is measured.
 */
export type LoadTarget = {
  readonly pid: number
  readonly port: number
  readonly statuses?: readonly number[]
  readonly yields?: boolean
  readonly core?: number
}
export type LoadMeasurement = LoadResult & { readonly cpuUsPerRequest: number; readonly requestsPerSecond: number }

export class HttpLoad implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #target: LoadTarget
  #settle: ((report: LoadReport) => void) | null = null
  #failure: string | null = null

  private constructor(child: ChildProcess, target: LoadTarget) {
    this.#child = child
    this.#target = target
    child.on('message', this.#onReport)
    child.on('exit', this.#onExit)
  }

  static async open(target: LoadTarget, connections: number, ...requests: readonly Buffer[]): Promise<HttpLoad> {
    const script = path.join(import.meta.dirname, 'http-load.ts')
    const [command, ...rest] = [
      ...onCore(target.core ?? 1),
      ...(target.yields === true ? behindOthers : []),
      process.execPath,
      script,
    ]
    const child = spawn(command, rest, { stdio: ['ignore', 'inherit', 'ignore', 'ipc'], serialization: 'advanced' })
    const load = new HttpLoad(child, target)
    await load.#order({ kind: 'open', port: target.port, statuses: target.statuses ?? [200], connections, requests })
    return load
  }

  /** Sends for so many seconds, and at least so many requests. */
  async run(seconds: number, atLeast = 1): Promise<LoadMeasurement> {
    const before = cpuSecondsOf(this.#target.pid)
    const report = await this.#order({ kind: 'run', seconds, atLeast })
    const cpuSeconds = cpuSecondsOf(this.#target.pid) - before
    if (report.kind !== 'ran') throw new Error(`expected the result of a run, got '${report.kind}'`)
    const { result } = report
    return {
      ...result,
      cpuUsPerRequest: (cpuSeconds * 1e6) / result.requests,
      requestsPerSecond: result.requests / result.seconds,
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }

  /** A load that failed while nobody waited for it says so at the next order. */
  readonly #onReport = (report: LoadReport): void => {
    if (report.kind === 'failed') this.#failure = `load: ${report.reason}`
    this.#settle?.(report)
  }

  readonly #onExit = (): void => {
    this.#failure ??= 'load: its process ended'
    this.#settle?.({ kind: 'failed', reason: this.#failure })
  }

  async #order(order: LoadOrder): Promise<LoadReport> {
    if (this.#failure !== null) throw new Error(this.#failure)
    const { promise, resolve } = Promise.withResolvers<LoadReport>()
    this.#settle = resolve
    this.#child.send(order)
    const report = await promise
    this.#settle = null
    if (report.kind === 'failed') throw new Error(this.#failure ?? report.reason)
    return report
  }
}
