import type { Clock } from '../../base/clock.ts'
import type { Log, LogFields } from '../../base/log.ts'

/** `--log-verbose=1`: what a load does, and how long each step took. */
export class LoadSteps {
  readonly #log: Log
  readonly #clock: Clock
  readonly #facts: LogFields
  #sinceNs: number

  constructor({ log, clock }: { readonly log: Log; readonly clock: Clock }, model: string, version: string) {
    this.#log = log.from('load-version.ts')
    this.#clock = clock
    this.#facts = { model, version }
    this.#sinceNs = clock.nowNs()
  }

  done(what: string, fields: LogFields = {}): void {
    const nowNs = this.#clock.nowNs()
    const ms = Math.round((nowNs - this.#sinceNs) / 1e4) / 100
    this.#sinceNs = nowNs
    this.#log.verbose(what, { ...this.#facts, ...fields, ms })
  }
}
