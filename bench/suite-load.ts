// Drives bench/suite-load-process.ts.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { LoadLevel, LoadSetup } from '../src/perf/load/load-order.ts'
import { onCore } from './pinning.ts'
import type { SuiteOrder, SuiteReport, SuiteRun } from './suite-load-process.ts'

export type RunSettings = {
  readonly shape: LoadLevel['shape']
  readonly pid: number
  readonly settleMs: number
  readonly windowMs: number
  readonly atLeast: number
}

export class SuiteLoad implements AsyncDisposable {
  readonly #child: ChildProcess

  /** `core` null: wherever there is room. */
  constructor(core: number | null) {
    const script = path.join(import.meta.dirname, 'suite-load-process.ts')
    const [command, ...rest] = [...(core === null ? [] : onCore(core)), process.execPath, script]
    this.#child = spawn(command, rest, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], serialization: 'advanced' })
  }

  async open(key: string, setup: Omit<LoadSetup, 'counters' | 'share'>): Promise<void> {
    await this.#order({ kind: 'open', key, setup })
  }

  async run(key: string, settings: RunSettings): Promise<SuiteRun> {
    const report = await this.#order({ kind: 'run', key, ...settings })
    if (report.kind !== 'ran') throw new Error(`expected the result of a run, got '${report.kind}'`)
    return report.run
  }

  async close(key: string): Promise<void> {
    await this.#order({ kind: 'close', key })
  }

  async #order(order: SuiteOrder): Promise<SuiteReport> {
    const answered = once(this.#child, 'message') as Promise<[SuiteReport]>
    this.#child.send(order)
    const [report] = await answered
    if (report.kind === 'failed') throw new Error(report.reason)
    return report
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }
}
