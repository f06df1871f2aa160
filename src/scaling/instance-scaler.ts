// Looks at every version with `instances_max` once a second and has its instances follow the load.

import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import { activeGroups, scaleLimitsOf, type ScaleLimits } from '../config/scale-limits.ts'
import type { ServedVersion } from '../engine/serving/served-version.ts'
import { modelLabel, type ModelKey } from '../model/model-key.ts'
import { backlogOf } from '../telemetry/pressure-meter.ts'
import type { ScaledFigures } from '../telemetry/scaling-families.ts'
import { coreBound } from './core-bound.ts'
import type { PatternBook } from './pattern-book.ts'
import { meanDemand, planInstances, refused, scaleStart, type ScaleMove, type ScaleReason } from './plan-instances.ts'
import type { WeekPattern } from './week-pattern.ts'

/** What the scaler reads of a version. */
export type ScalableVersion = Pick<
  ServedVersion,
  'key' | 'name' | 'namespace' | 'version' | 'state' | 'config' | 'pendingCount' | 'workload' | 'loadSeconds' | 'statistics'
> // prettier-ignore

type ScalerParts<Version extends ScalableVersion> = {
  readonly clock: Clock
  readonly log: Log
  readonly coreCount: number
  /** Null: no pattern is kept. */
  readonly patterns: Pick<PatternBook, 'read' | 'save'> | null
  readonly scale: (version: Version, count: number) => Promise<void>
  /** Why no instance can be added now; '' when one can. */
  readonly obstacle: (version: Version) => Promise<string>
  /** Whether requests without a version go to this one. */
  readonly isStandard: (version: Version) => boolean
}

type Work = { readonly atNs: number; readonly busyNs: number; readonly requests: number }

type Watched<Version> = {
  readonly version: Version
  readonly limits: ScaleLimits
  /** GPUs that each have `count` instances; 1 without GPUs. */
  readonly deviceCount: number
  state: typeof scaleStart
  /** The last seconds, the oldest first. */
  work: Work[]
  isChanging: boolean
  readonly moves: Map<ScaleReason, number>
}

const tickNs = 1e9
const costSecs = 15
const refusalSecs = 60
const forecastSpareSecs = 120

export class InstanceScaler<Version extends ScalableVersion> {
  readonly #parts: ScalerParts<Version>
  readonly #log: Log
  readonly #watched = new Map<Version, Watched<Version>>()
  readonly #patterns = new Map<ModelKey, WeekPattern>()
  /** At least so many instances of a model, until then. */
  readonly #holds = new Map<string, { readonly count: number; readonly untilNs: number }>()
  #cancel: Cancel | null = null
  #isClosed = false

  constructor(parts: ScalerParts<Version>) {
    this.#parts = parts
    this.#log = parts.log.from('instance-scaler.ts')
  }

  /** From now on the version follows its load, if its configuration says so, until it is unloaded. */
  add(version: Version): void {
    const limits = scaleLimitsOf(version.config)
    if (limits === null || this.#isClosed) return
    const [group] = activeGroups(version.config)
    const deviceCount = group?.kind === 'KIND_GPU' ? Math.max(1, group.gpus.length) : 1
    const max = Math.max(limits.min, Math.min(limits.max, coreBound(version.config, this.#parts.coreCount)))
    if (max < limits.max)
      this.#log.info(`model '${version.name}' gets at most ${max} instances: ${this.#parts.coreCount} cores keep no more of them busy`) // prettier-ignore
    const first = this.#workOf(version)
    this.#watched.set(version, { version, limits: { ...limits, max }, deviceCount, state: scaleStart, work: [first], isChanging: false, moves: new Map() }) // prettier-ignore
    if (limits.usesForecast) void this.#readPattern(version.key)
    this.#cancel ??= this.#parts.clock.after(tickNs, () => this.#tick())
  }

  /** For so long the model has `more` instances more than now, as far as its limits allow; the number that it has then. */
  hold(model: string, more: number, secs: number): { readonly count: number } | null {
    let asked: { readonly count: number } | null = null
    for (const { version, limits } of this.#watched.values()) {
      if (version.name !== model || version.state !== 'READY') continue
      const count = Math.min(limits.max, Math.max(limits.min, countOf(version) + more))
      this.#holds.set(model, { count, untilNs: this.#parts.clock.nowNs() + secs * 1e9 })
      asked = { count }
    }
    return asked
  }

  *figures(): IterableIterator<ScaledFigures> {
    for (const { version, limits, state, moves, deviceCount } of this.#watched.values()) {
      const { name: model, namespace, version: number } = version
      const demand = meanDemand(state.samples) * deviceCount
      yield { model, namespace, version: number, max: limits.max * deviceCount, demand, moves }
    }
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  #tick(): void {
    this.#cancel = null
    for (const watched of this.#watched.values()) {
      if (watched.version.state === 'READY') this.#look(watched)
      else this.#watched.delete(watched.version)
    }
    this.#notePatterns()
    if (this.#watched.size > 0 && !this.#isClosed) this.#cancel = this.#parts.clock.after(tickNs, () => this.#tick())
  }

  #look(watched: Watched<Version>): void {
    const { version, work, deviceCount } = watched
    const now = this.#workOf(version)
    const last = work.at(-1) ?? now
    const oldest = work[0] ?? now
    watched.work = [...work.filter(({ atNs }) => now.atNs - atNs < costSecs * 1e9), now]
    const seconds = Math.max(now.atNs - last.atNs, 1e6) / 1e9
    const busy = Math.max(0, now.busyNs - last.busyNs) / 1e9 / seconds
    const change = { busyNs: now.busyNs - oldest.busyNs, requests: now.requests - oldest.requests }
    const backlog = backlogOf(change, now, version.pendingCount)
    const sample = {
      atSec: now.atNs / 1e9,
      demand: (busy + backlog) / deviceCount,
      busy: busy / deviceCount,
      rows: version.statistics().inferenceCount,
      count: countOf(version),
    }
    const { state, move } = planInstances(watched.state, watched.limits, sample, this.#floorOf(watched))
    // A change that is under way ends first. What it was decided from has not changed by then.
    if (move === null || watched.isChanging)
      watched.state = { ...state, ...(watched.isChanging ? { trial: watched.state.trial } : {}) } // prettier-ignore
    else {
      watched.state = state
      watched.isChanging = true
      void this.#move(watched, sample.count, move).finally(() => (watched.isChanging = false))
    }
  }

  async #move(watched: Watched<Version>, from: number, { count, reason, why }: ScaleMove): Promise<void> {
    const { version } = watched
    const { clock, scale, obstacle } = this.#parts
    const which = `instances of model '${modelLabel(version.key)}' version ${version.version}`
    const beganNs = clock.nowNs()
    const wallSec = (): number => clock.nowNs() / 1e9
    try {
      const problem = count > from ? await obstacle(version) : ''
      if (problem !== '') throw new Error(problem)
      await scale(version, count)
      watched.moves.set(reason, (watched.moves.get(reason) ?? 0) + 1)
      const seconds = ((clock.nowNs() - beganNs) / 1e9).toFixed(1)
      this.#log.info(`${which}: ${from} to ${count} after ${seconds} s (${reason}: ${why})`)
    } catch (cause) {
      watched.state = refused(watched.state, from, wallSec() + refusalSecs)
      this.#log.warning(`${which} stay ${from}, ${count} were wanted (${reason}: ${why}): ${messageOf(cause)}. The next try is in ${refusalSecs} s`) // prettier-ignore
    }
  }

  /** What an operator or the forecast asks for at least. */
  #floorOf({ version, limits, deviceCount }: Watched<Version>): number {
    const { clock, isStandard } = this.#parts
    if (!isStandard(version)) return 0
    const hold = this.#holds.get(version.name)
    if (hold !== undefined && clock.nowNs() >= hold.untilNs) this.#holds.delete(version.name)
    const held = this.#holds.get(version.name)?.count ?? 0
    const pattern = limits.usesForecast ? this.#patterns.get(version.key) : undefined
    const expected = pattern?.expected(clock.wallMs(), version.loadSeconds + forecastSpareSecs) ?? 0
    return Math.max(held, Math.ceil(expected / deviceCount / limits.target - 1e-6))
  }

  #workOf(version: Version): Work {
    const atNs = this.#parts.clock.nowNs()
    const { success, fail } = version.statistics().inferenceStats
    return { atNs, busyNs: version.workload.busyNs(atNs), requests: success.count + fail.count }
  }

  async #readPattern(key: ModelKey): Promise<void> {
    const pattern = (await this.#parts.patterns?.read(key)) ?? null
    if (pattern !== null && !this.#patterns.has(key)) this.#patterns.set(key, pattern)
  }

  /** A new version of a model goes on with the pattern of the model. */
  #notePatterns(): void {
    for (const [key, pattern] of this.#patterns) {
      const versions = [...this.#watched.values()].filter(({ version }) => version.key === key)
      if (versions.length === 0) this.#patterns.delete(key)
      const demand = versions.reduce((sum, { state, deviceCount }) => sum + meanDemand(state.samples) * deviceCount, 0)
      if (pattern.note(this.#parts.clock.wallMs(), demand)) void this.#parts.patterns?.save(key, pattern)
    }
  }
}

const countOf = ({ config }: ScalableVersion): number => activeGroups(config)[0]?.count ?? 1
