// The measurements so far, on disk, so that an interrupted run can continue.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { isRunning } from '../base/is-running.ts'
import { messageOf } from '../base/server-error.ts'
import { OptionError } from '../perf/option-words.ts'
import { keyOf } from './setting.ts'
import type { MeasuredPoint } from './find-setting.ts'

type StateFile = {
  readonly about: string
  /** The process that writes or wrote the file. */
  readonly pid: number
  readonly points: readonly MeasuredPoint[]
}

export class TuneState {
  readonly #file: string
  /** The points are valid for this: model, configuration, requests. */
  readonly #about: string
  readonly #points: MeasuredPoint[]

  private constructor(file: string, about: string, points: readonly MeasuredPoint[]) {
    this.#file = file
    this.#about = about
    this.#points = [...points]
    try {
      this.#write()
    } catch (reason) {
      throw new OptionError(`what is measured cannot be noted (${messageOf(reason)}); --state FILE names another place`)
    }
  }

  static create(file: string, about: string): TuneState {
    try {
      validateUnused(file, read(file))
    } catch (reason) {
      // There is no such file, or it cannot be read.
      if (reason instanceof OptionError) throw reason
    }
    return new TuneState(file, about, [])
  }

  static resume(file: string, about: string): TuneState {
    if (!existsSync(file)) throw new OptionError(`--resume: there is no ${file} to go on with; start anew without it`)
    let state: StateFile
    try {
      state = read(file)
    } catch (reason) {
      throw new OptionError(`--resume: cannot read ${file}: ${messageOf(reason)}; start anew without it`)
    }
    validateUnused(file, state)
    if (state.about !== about || !Array.isArray(state.points)) {
      throw new OptionError(
        `--resume: ${file} was measured with another model, configuration, server or data; start anew without it`,
      )
    }
    // Failed points are measured again, because the reason may be gone.
    return new TuneState(file, about, state.points.filter((point) => point.failure === '')) // prettier-ignore
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
    this.#write()
  }

  remove(): void {
    rmSync(this.#file, { force: true })
  }

  #write(): void {
    const state: StateFile = { about: this.#about, pid: process.pid, points: this.#points }
    const part = `${this.#file}.${process.pid}.part`
    writeFileSync(part, JSON.stringify(state))
    renameSync(part, this.#file)
  }
}

function read(file: string): StateFile {
  const state = JSON.parse(readFileSync(file, 'utf8')) as StateFile | null
  if (typeof state !== 'object' || state === null) throw new Error('it is no object')
  return state
}

function validateUnused(file: string, { pid }: StateFile): void {
  if (pid === process.pid || !isRunning(pid)) return
  throw new OptionError(
    `${file} belongs to another galatea tune that is running (process ${pid}). Two at once would disturb each other's figures: ` +
      'wait for it, or give this one a file of its own with --state FILE',
  )
}

/** Changes when the model changes. Made of names, sizes and times of its files, so that gigabytes are not read. */
export function filesMark(folder: string): string {
  if (!existsSync(folder)) return ''
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    // A load may write these files, and config.pbtxt is compared as the server reads it.
    .filter((name) => !/(?:^|[\\/])(?:__pycache__|\.)/.test(name) && name !== 'config.pbtxt')
    .toSorted()
  const hash = createHash('sha256')
  for (const name of names) {
    const facts = statSync(path.join(folder, name), { throwIfNoEntry: false })
    if (facts?.isFile() === true) hash.update(`${name} ${facts.size} ${facts.mtimeMs}\n`)
  }
  return hash.digest('hex')
}
