// Live figures for whoever looks, and one hour of them for whoever looks again. While nobody looks no timer runs.

import type { Cancel, Clock } from '../base/clock.ts'
import {
  FigureSampler,
  serverFigureNames,
  versionFigureNames,
  type FigureSample,
  type ProcessCounters,
  type ServerFigures,
  type VersionFigures,
} from './figure-sampler.ts'
import type { LedgerEntry } from './model-ledger.ts'

const tickNs = 1e9
const historyStepNs = 5e9
/** One hour. */
const historyPoints = 720
/** Versions with a history: 35 KiB each. */
const mostHistories = 50

type LiveSource = {
  readonly clock: Clock
  readonly entries: () => Iterable<LedgerEntry>
  readonly process: ProcessCounters
}

type FigureHistory = {
  readonly interval_s: number
  /** Milliseconds since 1970 of the last point. */
  readonly until: number
  /** Oldest first; null where there was nothing to measure. */
  readonly figures: Readonly<Record<string, readonly (number | null)[]>>
}

export class LiveFigures {
  readonly #source: LiveSource
  readonly #watchers = new Set<(sample: FigureSample) => void>()
  #cancelTick: Cancel | null = null
  #history: History | null = null
  #cancelStep: Cancel | null = null
  #isClosed = false

  constructor(source: LiveSource) {
    this.#source = source
  }

  /** Once a second, beginning a second from now. The returned function takes it back. */
  watch(watcher: (sample: FigureSample) => void): () => void {
    this.#keepHistory()
    this.#watchers.add(watcher)
    if (this.#cancelTick === null && !this.#isClosed) this.#tick(new FigureSampler(this.#source))
    return () => {
      if (!this.#watchers.delete(watcher) || this.#watchers.size > 0) return
      this.#cancelTick?.()
      this.#cancelTick = null
    }
  }

  /** Of the server when the model is ''. Empty for a version without one. The first question begins the history. */
  history(model: string, version: string): FigureHistory {
    const history = this.#keepHistory()
    return history.show(model === '' ? '' : `${model}/${version}`, this.#source.clock.wallMs())
  }

  /** Requests per second of every version, for small pictures. */
  rates(): Readonly<Record<string, readonly (number | null)[]>> {
    return this.#keepHistory().rates()
  }

  close(): void {
    this.#isClosed = true
    this.#cancelTick?.()
    this.#cancelStep?.()
    this.#watchers.clear()
  }

  #tick(sampler: FigureSampler): void {
    this.#cancelTick = this.#source.clock.after(tickNs, () => {
      const sample = sampler.sample()
      for (const watcher of this.#watchers) watcher(sample)
      if (this.#watchers.size > 0) this.#tick(sampler)
    })
  }

  #keepHistory(): History {
    if (this.#history === null) {
      this.#history = new History()
      if (!this.#isClosed) this.#step(new FigureSampler(this.#source), this.#history, 0)
    }
    return this.#history
  }

  /** The history ends when nobody has looked for as long as it reaches back: then none of it would be of use. */
  #step(sampler: FigureSampler, history: History, idleSteps: number): void {
    this.#cancelStep = this.#source.clock.after(historyStepNs, () => {
      history.add(sampler.sample())
      const idle = this.#watchers.size === 0 ? idleSteps + 1 : 0
      if (idle < historyPoints) this.#step(sampler, history, idle)
      else this.#history = null
    })
  }
}

/** Rings of figures, all turned together. NaN stands for null. */
class History {
  #turn = 0
  readonly #rings = new Map<string, Float32Array>()

  add({ server, versions }: FigureSample): void {
    const turn = this.#turn++
    this.#write('', serverFigureNames, server, turn)
    for (const [key, figures] of versions) this.#write(key, versionFigureNames, figures, turn)
    for (const [key, ring] of this.#rings) {
      if (key === '' || versions.has(key)) continue
      ring.fill(NaN, (turn % historyPoints) * versionFigureNames.length, ((turn % historyPoints) + 1) * versionFigureNames.length) // prettier-ignore
    }
  }

  show(key: string, wallMs: number): FigureHistory {
    const names: readonly string[] = key === '' ? serverFigureNames : versionFigureNames
    const ring = this.#rings.get(key)
    const figures = Object.fromEntries(names.map((name, i) => [name, this.#series(ring, names.length, i)]))
    return { interval_s: historyStepNs / 1e9, until: wallMs, figures }
  }

  rates(): Record<string, (number | null)[]> {
    const shown: Record<string, (number | null)[]> = {}
    for (const [key, ring] of this.#rings) {
      if (key !== '') shown[key] = this.#series(ring, versionFigureNames.length, 0)
    }
    return shown
  }

  #write(key: string, names: readonly string[], figures: ServerFigures | VersionFigures, turn: number): void {
    let ring = this.#rings.get(key)
    if (ring === undefined) {
      if (this.#rings.size > mostHistories) return
      ring = new Float32Array(historyPoints * names.length).fill(NaN)
      this.#rings.set(key, ring)
    }
    const at = (turn % historyPoints) * names.length
    for (const [i, name] of names.entries()) ring[at + i] = (figures as Record<string, number | null>)[name] ?? NaN
  }

  #series(ring: Float32Array | undefined, width: number, column: number): (number | null)[] {
    const count = ring === undefined ? 0 : Math.min(this.#turn, historyPoints)
    return Array.from({ length: count }, (_, i) => {
      const value = (ring as Float32Array)[((this.#turn - count + i) % historyPoints) * width + column] as number
      return Number.isNaN(value) ? null : Number(value.toPrecision(4))
    })
  }
}
