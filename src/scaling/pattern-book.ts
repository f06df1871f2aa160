// The patterns of models, one file each in the folder `scaling` of `--state-dir`.

import { hash } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Log } from '../base/log.ts'
import { replaceFile } from '../base/replace-file.ts'
import { messageOf } from '../base/server-error.ts'
import { WeekPattern } from './week-pattern.ts'

/** A file above this size was not written by this program. */
const largestPatternChars = 64 * 1024

export class PatternBook {
  readonly #folder: string
  readonly #log: Log

  constructor(log: Log, stateDirectory: string) {
    this.#log = log
    this.#folder = path.join(stateDirectory, 'scaling')
  }

  /** An empty pattern where there is none, or none that can be read. */
  async read(model: string): Promise<WeekPattern> {
    const text = await readFile(this.#file(model), 'utf8').catch(() => 'null')
    try {
      return new WeekPattern(text.length > largestPatternChars ? null : JSON.parse(text))
    } catch (reason) {
      this.#log.warning(`'${this.#file(model)}' is left out, and the forecast of its model begins anew: ${messageOf(reason)}`) // prettier-ignore
      return new WeekPattern()
    }
  }

  async save(model: string, pattern: WeekPattern): Promise<void> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await replaceFile(this.#file(model), JSON.stringify(pattern))
    } catch (reason) {
      this.#log.warning(`the load of model '${model}' cannot be kept for its forecast: ${messageOf(reason)}`)
    }
  }

  #file(model: string): string {
    return path.join(this.#folder, `${hash('sha256', model).slice(0, 32)}.json`)
  }
}
