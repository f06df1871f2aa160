// What was measured so far, on disk: an interrupted run goes on with it.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { OptionError } from '../perf/option-words.ts'
import { keyOf } from './setting.ts'
import type { MeasuredPoint } from './find-setting.ts'

type StateFile = { readonly about: string; readonly points: readonly MeasuredPoint[] }

export class TuneState {
  readonly #file: string
  /** What the points are true of: model, configuration, requests. */
  readonly #about: string
  readonly #points: MeasuredPoint[]

  private constructor(file: string, about: string, points: readonly MeasuredPoint[]) {
    this.#file = file
    this.#about = about
    this.#points = [...points]
  }

  static create(file: string, about: string): TuneState {
    return new TuneState(file, about, [])
  }

  static resume(file: string, about: string): TuneState {
    let read: StateFile
    try {
      read = JSON.parse(readFileSync(file, 'utf8')) as StateFile
    } catch (reason) {
      throw new OptionError(`--resume: cannot read ${file}: ${(reason as Error).message}`)
    }
    if (read.about !== about || !Array.isArray(read.points)) {
      throw new OptionError(
        `--resume: ${file} was measured with another model, configuration or data; start anew without it`,
      )
    }
    return new TuneState(file, about, read.points)
  }

  get points(): readonly MeasuredPoint[] {
    return this.#points
  }

  find({ step, setting, concurrency }: Pick<MeasuredPoint, 'step' | 'setting' | 'concurrency'>): MeasuredPoint | null {
    const isConfirmation = step === 'confirm'
    const found = this.#points.find(
      (point) =>
        (point.step === 'confirm') === isConfirmation &&
        point.concurrency === concurrency &&
        keyOf(point.setting) === keyOf(setting),
    )
    return found ?? null
  }

  add(point: MeasuredPoint): void {
    this.#points.push(point)
    const text = JSON.stringify({ about: this.#about, points: this.#points } satisfies StateFile)
    writeFileSync(`${this.#file}.part`, text)
    renameSync(`${this.#file}.part`, this.#file)
  }

  remove(): void {
    rmSync(this.#file, { force: true })
  }
}
