// Drives bench/grpc-load.ts: opens its connections, has it run, and reads the server's processor time around each run.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { GrpcLoadOrder, GrpcLoadReport, GrpcLoadResult } from './grpc-load.ts'
import { onCore } from './pinning.ts'
import { cpuSecondsOf } from './process-usage.ts'

type GrpcTarget = { readonly pid: number; readonly port: number }
export type GrpcMeasurement = GrpcLoadResult & { readonly cpuUs: number; readonly rate: number }
type OpenOrder = Extract<GrpcLoadOrder, { kind: 'open' }>
/** Without `headers` calls have none of their own; without `statuses` all answers must be OK. */
type LoadSettings = Omit<OpenOrder, 'kind' | 'port' | 'headers' | 'statuses' | 'path'> &
  Partial<Pick<OpenOrder, 'headers' | 'statuses' | 'path'>>

export class GrpcLoad implements AsyncDisposable {
  readonly #target: GrpcTarget
  readonly #child: ReturnType<typeof spawn>

  private constructor(target: GrpcTarget, child: ReturnType<typeof spawn>) {
    this.#target = target
    this.#child = child
  }

  static async open(target: GrpcTarget, order: LoadSettings): Promise<GrpcLoad> {
    const [command, ...rest] = [...onCore(1), process.execPath, path.join(import.meta.dirname, 'grpc-load.ts')]
    const child = spawn(command, rest, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], serialization: 'advanced' })
    const load = new GrpcLoad(target, child)
    await load.#order({ kind: 'open', port: target.port, headers: [], statuses: [0], path: '', ...order })
    return load
  }

  async run(seconds: number): Promise<GrpcMeasurement> {
    const before = cpuSecondsOf(this.#target.pid)
    const report = await this.#order({ kind: 'run', seconds })
    const cpuSeconds = cpuSecondsOf(this.#target.pid) - before
    if (report.kind !== 'ran') throw new Error(`expected the result of a run, got '${report.kind}'`)
    const { result } = report
    return { ...result, cpuUs: (cpuSeconds * 1e6) / result.calls, rate: result.calls / result.seconds }
  }

  async #order(order: GrpcLoadOrder): Promise<GrpcLoadReport> {
    const answered = once(this.#child, 'message') as Promise<[GrpcLoadReport]>
    this.#child.send(order)
    const [report] = await answered
    if (report.kind === 'failed') throw new Error(`load: ${report.reason}`)
    return report
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }
}
