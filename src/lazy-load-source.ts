// How loaded the server is. The code that works it out is read when somebody first asks: the first answer then has no report.

import type { Caller } from './access/caller.ts'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { OnDemand } from './base/on-demand.ts'
import { messageOf } from './base/server-error.ts'
import type { LoadSource } from './model/load-source.ts'
import type { ModelLedger } from './telemetry/model-ledger.ts'
import type { LoadFigures, PressureMeter } from './telemetry/pressure-meter.ts'
import type { LoadReport } from './telemetry/load-reports.ts'

type LoadParts = {
  readonly clock: Clock
  readonly log: Log
  readonly ledger: ModelLedger
  /** What models tell of themselves, as the use of a language model's cache. */
  readonly named: () => ReadonlyMap<string, number>
}

type Opened = {
  readonly meter: PressureMeter
  readonly reportOf: (figures: LoadFigures, named: ReadonlyMap<string, number>, namesModels: boolean) => LoadReport
}

export class LazyLoadSource implements LoadSource {
  readonly #parts: LoadParts
  /** `--orca=always` */
  readonly isTold: boolean
  #opened: Opened | null = null
  readonly #opening = new OnDemand(() => this.#open())
  /** Whether the log says why there are no reports: every answer may ask for one. */
  #hasFailed = false
  #isClosed = false
  #figures: LoadFigures | null = null
  /** With the pressure of models, and without it, for callers who may not see the statistics of all models. */
  #reports: { full: LoadReport | null; plain: LoadReport | null } = { full: null, plain: null }

  constructor(parts: LoadParts, isTold: boolean) {
    this.#parts = parts
    this.isTold = isTold
  }

  /** Null while nothing is measured yet; asking begins it. */
  figures(): LoadFigures | null {
    if (this.#opened === null) this.#opening.get().catch((reason: unknown) => this.#noteFailure(reason))
    return this.#opened?.meter.figures() ?? null
  }

  #noteFailure(reason: unknown): void {
    if (!this.#hasFailed) this.#parts.log.error(`nobody can be told the load: ${messageOf(reason)}`)
    this.#hasFailed = true
  }

  /** HOT with `--orca=always`: once a second a report is made. */
  header(format: string, caller: Caller): readonly string[] | null {
    const report = this.#current(caller)
    if (report === null) return null
    switch (format.toLowerCase()) {
      case 'text':
        return ['endpoint-load-metrics', report.text]
      case 'json':
        return ['endpoint-load-metrics', report.json]
      case 'bin':
        return ['endpoint-load-metrics-bin', report.message.toString('base64')]
      default:
        return null
    }
  }

  message(caller: Caller): Buffer | null {
    return this.#current(caller)?.message ?? null
  }

  close(): void {
    this.#isClosed = true
    this.#opened?.meter.close()
  }

  #current({ rights }: Caller): LoadReport | null {
    const figures = this.figures()
    if (figures === null || this.#opened === null) return null
    if (this.#figures !== figures) {
      this.#figures = figures
      this.#reports = { full: null, plain: null }
    }
    const kind = rights === null || rights.mayAll('statistics') ? 'full' : 'plain'
    this.#reports[kind] ??= this.#opened.reportOf(figures, this.#parts.named(), kind === 'full')
    return this.#reports[kind]
  }

  async #open(): Promise<void> {
    const [{ PressureMeter }, { loadReport }] = await Promise.all([
      import('./telemetry/pressure-meter.ts'),
      import('./telemetry/load-reports.ts'),
    ])
    if (this.#isClosed) return
    const { clock, ledger } = this.#parts
    this.#opened = { meter: new PressureMeter(clock, () => ledger.entries()), reportOf: loadReport }
  }
}
