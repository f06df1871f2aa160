// How busy the models of jobs are: the pressure that metrics show, and whether anybody but jobs asks a model.

import type { Clock } from './base/clock.ts'
import type { Engine } from './engine/engine.ts'
import type { ModelLoad } from './jobs/line-room.ts'
import type { LedgerEntry, ModelLedger } from './telemetry/model-ledger.ts'
import type { LoadFigures } from './telemetry/pressure-meter.ts'

/** As long as the window of the pressure: a client that asked so long ago is still in it. */
const clientWindowNs = 15e9

/** What is remembered of a model that has jobs. */
type Seen = {
  /** Answers to lines of jobs. */
  ownCount: number
  /** Answers to others, at the last look; null before the first one. */
  otherCount: number | null
  clientNs: number
  /** Worked out anew with every set of figures, which is once a second. */
  figures: LoadFigures | null
  entries: readonly LedgerEntry[]
  /** The part of the pressure that is not of lines. */
  pressure: number | null
  /** The counts at each set of figures, as far back as the pressure looks; the oldest first. */
  marks: readonly Mark[]
}

type Mark = { readonly atNs: number; readonly own: number; readonly other: number }

export class JobLoads {
  readonly #clock: Clock
  readonly #engine: Engine
  readonly #ledger: ModelLedger
  readonly #figures: () => LoadFigures | null
  readonly #seen = new Map<string, Seen>()

  constructor(clock: Clock, engine: Engine, ledger: ModelLedger, figures: () => LoadFigures | null) {
    this.#clock = clock
    this.#engine = engine
    this.#ledger = ledger
    this.#figures = figures
  }

  /** To be called in the turn of the event loop in which a line of a job has its answer. */
  lineAnswered(model: string): void {
    this.#of(model).ownCount++
  }

  /** Null: the model is not there. */
  of(model: string, version: string): ModelLoad | null {
    const versions = this.#engine.servedModel(model)?.versions
    const served = version === '' ? [...(versions?.values() ?? [])].filter(({ isReady }) => isReady) : [versions?.get(version)].filter((one) => one !== undefined) // prettier-ignore
    const [first] = served
    if (first === undefined) return null
    let [pendingCount, inFlightCount, instanceCount] = [0, 0, 0]
    for (const one of served) {
      pendingCount += one.pendingCount
      inFlightCount += one.inFlightCount
      instanceCount += one.instances.length
    }
    const { config } = first
    const batchSize = config.dynamicBatching === null ? 1 : Math.max(1, config.maxBatchSize)
    const seen = this.#look(model)
    const hasClients = this.#clock.nowNs() - seen.clientNs < clientWindowNs
    return { pendingCount, inFlightCount, instanceCount: Math.max(1, instanceCount), batchSize, pressure: seen.pressure, hasClients } // prettier-ignore
  }

  #of(model: string): Seen {
    const known = this.#seen.get(model)
    if (known !== undefined) return known
    const seen: Seen = {
      ownCount: 0,
      otherCount: null,
      clientNs: -Infinity,
      figures: null,
      entries: [],
      pressure: null,
      marks: [],
    }
    this.#seen.set(model, seen)
    return seen
  }

  /** More answers than those of lines: a client asked. */
  #look(model: string): Seen {
    const seen = this.#of(model)
    const nowNs = this.#clock.nowNs()
    const figures = this.#figures()
    const isNew = figures !== seen.figures || seen.entries.length === 0
    if (isNew) {
      seen.figures = figures
      seen.entries = [...this.#ledger.entries()].filter(({ labels }) => labels.some(([name, value]) => name === 'model' && value === model)) // prettier-ignore
    }
    let answered = 0
    for (const { live } of seen.entries) for (const { statistics } of live) answered += statistics.success.count + statistics.fail.count // prettier-ignore
    const otherCount = answered - seen.ownCount
    if (seen.otherCount !== null && otherCount > seen.otherCount) seen.clientNs = nowNs
    // It also falls: a version that is loaded anew begins at nothing.
    if (seen.otherCount !== null && otherCount < seen.otherCount) seen.marks = []
    seen.otherCount = otherCount
    if (isNew) {
      const mark: Mark = { atNs: nowNs, own: seen.ownCount, other: otherCount }
      const first = seen.marks.findLastIndex(({ atNs }) => nowNs - atNs >= clientWindowNs)
      seen.marks = [...seen.marks.slice(Math.max(first, 0)), mark]
      const all = seen.entries.reduce<number | null>((most, entry) => largest(most, figures?.pressures.get(entry) ?? null), null) // prettier-ignore
      seen.pressure = all === null ? null : all * othersShare(seen.marks[0] ?? mark, mark)
    }
    return seen
  }
}

/** The share of clients in what a model answered. Lines that are longer than requests of clients count for less than they are: the job waits sooner. */
function othersShare(before: Mark, now: Mark): number {
  const [own, other] = [now.own - before.own, Math.max(0, now.other - before.other)]
  return own + other === 0 ? 1 : other / (own + other)
}

const largest = (one: number | null, other: number | null): number | null =>
  one === null || other === null ? (one ?? other) : Math.max(one, other)
