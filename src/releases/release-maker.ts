// Makes rollouts and experiments: those that somebody wants, those that another server has begun, and those of before a restart.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { ServerError } from '../base/server-error.ts'
import { createExperiment, isExperimentOpen } from '../rollouts/reduce-experiment.ts'
import type { ExperimentPlan, RolloutPlan } from '../rollouts/rollout-plan.ts'
import { createRollout, isLive } from '../rollouts/rollout-state.ts'
import { ExperimentRun } from './experiment-run.ts'
import type { OpenExperiment } from './experiment-traffic.ts'
import type { OpenTraffic } from './live-traffic.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { PinBook } from './pin-book.ts'
import { experimentArms, rolloutArms } from './release-arms.ts'
import type { ReleaseRun } from './release-json.ts'
import { isRolloutRecord, pinTo, type ArmVersion, type ExperimentRecord, type ReleaseRecord, type RolloutRecord } from './release-record.ts' // prettier-ignore
import type { ReleaseStore } from './release-store.ts'
import { RolloutRun, type RunParts, type RunSettings } from './rollout-run.ts'
import { generationOf } from './state-sharing.ts'

export type MakerParts = Pick<RunParts, 'audit' | 'outbox' | 'shared'> & {
  readonly clock: Clock
  readonly log: Log
  readonly fleet: ModelFleet
  readonly pins: PinBook
  readonly store: ReleaseStore
  readonly openTraffic: OpenTraffic
  readonly openExperiment: OpenExperiment
  /** Somebody may want to see the new state. */
  changed(run: ReleaseRun): void
  /** An experiment is over, and its versions are let go. */
  released(): void
}

export type NewRelease = {
  /** '': made of the model's name and the version. */
  readonly name: string
  readonly model: string
  readonly plan: RolloutPlan | ExperimentPlan
  readonly spec: unknown
  /** Whoever posted it; '' for a new version that appeared. */
  readonly author: string
  readonly why: string
  /** A version that is held may be tried again. */
  readonly isRetry: boolean
}

/** A run and what begins it; or the record of another server that was quicker. */
type Made = { readonly run: ReleaseRun; begin(): void } | { readonly other: ReleaseRecord }

export class ReleaseMaker {
  readonly #parts: MakerParts
  readonly #isTaken: (name: string) => boolean
  /** The names of those that are being made, by model. */
  readonly #making = new Map<string, string>()
  /** What was last said about a rollout that cannot be joined. */
  readonly #reported = new Map<string, string>()

  constructor(parts: MakerParts, isTaken: (name: string) => boolean) {
    this.#parts = parts
    this.#isTaken = isTaken
  }

  /** Throws what is wrong with it. */
  async make(wanted: NewRelease): Promise<Made> {
    const { fleet, outbox } = this.#parts
    const { model, plan } = wanted
    this.#requireFree(wanted.name)
    if (wanted.name !== '') this.#making.set(model, wanted.name)
    if (fleet.isUploaded(model)) {
      throw new ServerError('INVALID_ARG', `model '${model}' serves files that came with a load request: rollouts need versions in a repository`) // prettier-ignore
    }
    const unlisted = plan.notify.find(({ secretEnv }) => !outbox.maySignWith(secretEnv))?.secretEnv
    if (unlisted !== undefined) {
      throw new ServerError(
        'INVALID_ARG',
        `'notify' signs with the environment variable '${unlisted}', and the server lets rollouts use only those that are listed: start it with --notify-secret-env=${unlisted}`,
      )
    }
    if (plan.kind === 'experiment') return await this.#makeExperiment({ ...wanted, plan })
    if (plan.judge.metrics.some(({ test }) => test === 'promql') && !outbox.hasPrometheus) {
      throw new ServerError(
        'INVALID_ARG',
        `'judge.metrics' has a query of Prometheus, and the server knows none: start it with --prometheus-url`,
      )
    }
    return await this.#makeRollout({ ...wanted, plan })
  }

  async #makeRollout(wanted: NewRelease & { readonly plan: RolloutPlan }): Promise<Made> {
    const { clock, fleet, pins } = this.#parts
    const { model, plan, author, spec, why } = wanted
    const polled = await fleet.poll(model)
    const arms = await rolloutArms({ fleet, pins }, wanted, polled)
    const name = this.#nameOf(wanted, arms[1] as ArmVersion)
    const createdMs = clock.wallMs()
    const transition = createRollout({ name, model, author, why }, { nowNs: clock.nowNs(), wallMs: createdMs })
    const { state } = transition
    const record = { name, model, author, createdMs, spec, plan, state, arms, evidence: {}, notes: [], report: null }
    const other = await this.#write(record)
    if (other !== null) return { other }
    const newest = pins.in(model, polled.repositoryPath)?.newest || fleet.standardOf(model)
    await pins.change(model, polled.repositoryPath, { ...pinTo(model, arms[0] as ArmVersion), newest })
    const run = this.#rollout(record, { repository: polled.repositoryPath, sharedGeneration: generationOf(record) })
    return { run, begin: () => run.begin(transition) }
  }

  async #makeExperiment(wanted: NewRelease & { readonly plan: ExperimentPlan }): Promise<Made> {
    const { clock, fleet, pins } = this.#parts
    const { model, plan, author, spec, why } = wanted
    const polled = await fleet.poll(model)
    const arms = await experimentArms({ fleet, pins }, wanted, polled)
    const control = (arms[0] as ArmVersion).version
    const name = this.#nameOf(wanted, arms.at(-1) as ArmVersion)
    const createdMs = clock.wallMs()
    const transition = createExperiment({ name, author, why }, { nowNs: clock.nowNs(), wallMs: createdMs })
    const { state } = transition
    const record = { name, model, author, createdMs, spec, plan, state, arms, evidence: {}, goals: {}, notes: [], report: null } // prettier-ignore
    const other = await this.#write(record)
    if (other !== null) return { other }
    const newest = pins.in(model, polled.repositoryPath)?.newest || fleet.standardOf(model) || control
    await pins.change(model, polled.repositoryPath, { standard: control, newest })
    const run = this.#experiment(record, { repository: polled.repositoryPath, sharedGeneration: generationOf(record) })
    return { run, begin: () => run.begin(transition) }
  }

  /** Where nothing can be kept there is no rollout: a restart would let the highest version win. */
  async #write(record: ReleaseRecord): Promise<ReleaseRecord | null> {
    const other = (await this.#parts.shared?.write(record, 0)) ?? null
    if (other === null) await this.#parts.store.saveRecord(record)
    return other
  }

  /** What an earlier run of the server has kept. */
  restore(record: ReleaseRecord): ReleaseRun {
    const settings = { repository: this.#parts.pins.of(record.model)?.repository ?? '', sharedGeneration: 0 }
    return this.#run(record, settings)
  }

  /** Another server has begun it. Its state is to be adopted then. Null: it cannot be joined, or not yet. */
  async join(record: ReleaseRecord): Promise<ReleaseRun | null> {
    const { fleet, pins, clock, log } = this.#parts
    const { name, model, arms } = record
    const polled = await fleet.poll(model).catch(() => null)
    let problem = polled === null ? `this server has no model '${model}'` : ''
    for (const { model: ofModel, version, hash } of polled === null ? [] : arms) {
      const from = ofModel === model ? polled : await fleet.poll(ofModel).catch(() => null)
      const isThere = from?.versions.includes(version) === true
      if (isThere && (await fleet.hashOf(from, version)) === hash) continue
      problem = `version ${version}${ofModel === model ? '' : ` of model '${ofModel}'`} ${isThere ? 'has other files here than on the server that began it' : 'is not here'}`
    }
    if (polled === null || problem !== '') {
      if (this.#reported.get(`join ${name}`) !== problem) log.warning(`rollout '${name}' is not joined: ${problem}`)
      this.#reported.set(`join ${name}`, problem)
      return null
    }
    const settings = { repository: polled.repositoryPath, sharedGeneration: 0 }
    // What a rollout that is over did to the pins came with the pins. Done once more, it would undo what came after it.
    if (!isOpenRecord(record)) return this.#run(record, settings)
    const newest = pins.in(model, polled.repositoryPath)?.newest || fleet.standardOf(model)
    await pins.change(model, polled.repositoryPath, { ...pinTo(model, arms[0] as ArmVersion), newest })
    const moment = { nowNs: clock.nowNs(), wallMs: record.createdMs }
    const begun = { name, model, author: record.author, why: 'another server has begun it' }
    return this.#run(
      isRolloutRecord(record)
        ? { ...record, evidence: {}, state: createRollout(begun, moment).state }
        : { ...record, goals: {}, state: createExperiment(begun, moment).state },
      settings,
    )
  }

  #run(record: ReleaseRecord, settings: RunSettings): ReleaseRun {
    return isRolloutRecord(record) ? this.#rollout(record, settings) : this.#experiment(record, settings)
  }

  #rollout(record: RolloutRecord, settings: RunSettings): RolloutRun {
    return new RolloutRun({ ...this.#parts, save: (kept) => this.#parts.store.saveRecord(kept) }, settings, record)
  }

  #experiment(record: ExperimentRecord, settings: RunSettings): ExperimentRun {
    return new ExperimentRun({ ...this.#parts, save: (kept) => this.#parts.store.saveRecord(kept) }, settings, record)
  }

  #requireFree(name: string): void {
    if (name === '') return
    if (!/^\w[\w.-]{0,99}$/.test(name)) {
      throw new ServerError(
        'INVALID_ARG',
        `'name' must have 1 to 100 letters, digits, _, - and ., and begin with none of - and ., got '${name.slice(0, 120)}'`,
      )
    }
    if (this.#isFree(name)) return
    throw new ServerError('ALREADY_EXISTS', `there is a rollout '${name}' already: give another name`)
  }

  /** Users are drawn by the name, so each rollout has another one. */
  #nameOf({ name, model }: NewRelease, { version }: ArmVersion): string {
    if (name !== '') return name
    const base = `${model
      .replaceAll(/[^\w.-]+/g, '-')
      .replace(/^[.-]/, '_')
      .slice(0, 60)}-${version}`
    for (let i = 1; ; i++) {
      const free = i === 1 ? base : `${base}.${i}`
      if (!this.#isFree(free)) continue
      this.#making.set(model, free)
      return free
    }
  }

  #isFree(name: string): boolean {
    return !this.#isTaken(name) && !this.#making.values().some((other) => other === name)
  }

  /** The rollout of the model has its place in the list, or could not be made. */
  settled(model: string): void {
    this.#making.delete(model)
  }
}

/** Whether the record keeps other rollouts of its model out. */
export const isOpenRecord = (record: ReleaseRecord): boolean =>
  isRolloutRecord(record) ? isLive(record.state) : isExperimentOpen(record.state)
