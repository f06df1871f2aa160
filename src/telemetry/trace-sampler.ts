import type { TraceSettings } from '../model/trace-control.ts'
import type { TraceFile } from './trace-file.ts'

/** Characters of records that wait for their file. With this many it is written, whatever `log_frequency` says: clients set that. */
const mostGatheredChars = 4 * 1024 * 1024

/** Picks one of every `rate` requests under one set of settings, and takes their traces to the file. */
export class TraceSampler {
  readonly #file: TraceFile
  #settings: TraceSettings
  #seen = 0
  #gathered: string[] = []
  #gatheredCount = 0
  #gatheredChars = 0

  constructor(file: TraceFile, settings: TraceSettings) {
    this.#file = file
    this.#settings = settings
  }

  /** `count` is the number of requests that are still to be traced. */
  get settings(): TraceSettings {
    return this.#settings
  }

  /** Whether any request could be traced. */
  get isOpen(): boolean {
    return this.#settings.levels.length > 0 && this.#settings.count !== 0
  }

  /** True: this request is to be traced. */
  pick(): boolean {
    const { levels, rate, count } = this.#settings
    if (levels.length === 0 || rate === 0 || count === 0) return false
    if (++this.#seen % rate !== 0) return false
    if (count > 0) this.#settings = { ...this.#settings, count: count - 1 }
    return true
  }

  /** The records of one trace. */
  add(records: readonly string[]): void {
    const { logFrequency } = this.#settings
    if (logFrequency === 0) {
      this.#file.append(records)
      return
    }
    for (const record of records) {
      this.#gathered.push(record)
      this.#gatheredChars += record.length
    }
    if (++this.#gatheredCount >= logFrequency || this.#gatheredChars >= mostGatheredChars) this.flush()
  }

  /** Records for a numbered file that is not full yet. */
  flush(): void {
    this.#file.appendNumbered(this.#gathered)
    this.#gathered = []
    this.#gatheredCount = 0
    this.#gatheredChars = 0
  }
}
