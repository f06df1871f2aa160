import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { LoadUnderWay } from '../../model/health.ts'

const firstLineSecs = 2
const laterLineSecs = 10

/** Knows the loads that have begun and not ended, and logs that a load is still going on: after two seconds, then every ten. */
export class LoadProgress {
  readonly #clock: Clock
  readonly #log: Log
  readonly #startsNs = new Map<object, readonly [model: string, startedNs: number]>()

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  /** The oldest first. */
  underWay(): LoadUnderWay[] {
    return [...this.#startsNs.values()].map(([model, startedNs]) => this.#describe(model, startedNs))
  }

  async watch(model: string, load: () => Promise<void>): Promise<void> {
    const startedNs = this.#clock.nowNs()
    const seconds = (): number => this.#describe(model, startedNs).seconds
    const entry = {}
    let cancel: Cancel = () => undefined
    const waitFor = (secs: number): void => {
      cancel = this.#clock.after(secs * 1e9, () => {
        this.#log.info(`still loading '${model}' after ${seconds()} s`)
        waitFor(laterLineSecs)
      })
    }
    this.#startsNs.set(entry, [model, startedNs])
    waitFor(firstLineSecs)
    try {
      await load()
      if (seconds() >= firstLineSecs) this.#log.info(`loaded '${model}' in ${seconds()} s`)
    } finally {
      this.#startsNs.delete(entry)
      cancel()
    }
  }

  #describe(model: string, startedNs: number): LoadUnderWay {
    const forNs = this.#clock.nowNs() - startedNs
    return { model, seconds: Math.round(forNs / 1e8) / 10, sinceMs: Math.round(this.#clock.wallMs() - forNs / 1e6) }
  }
}
