// All rollouts of a server: starts one when a new version appears or when somebody posts one, ticks them, and tells the Engine
// which versions are in memory.

import type { Caller } from '../access/caller.ts'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { VersionRule } from '../engine/lifecycle/version-rule.ts'
import type { ModelKey } from '../model/model-key.ts'
import { selectVersions } from '../repository/version-policy.ts'
import type { FoundModel } from '../repository/model-repository.ts'
import { createExperiment } from '../rollouts/reduce-experiment.ts'
import type { ExperimentPlan, RolloutPlan } from '../rollouts/rollout-plan.ts'
import { createRollout, isLive } from '../rollouts/rollout-state.ts'
import type { RolloutFigures } from '../telemetry/rollout-families.ts'
import { ExperimentRun } from './experiment-run.ts'
import type { OpenExperiment } from './experiment-traffic.ts'
import type { OpenTraffic } from './live-traffic.ts'
import { labelOfKey, type ModelFleet } from './model-fleet.ts'
import { PinBook } from './pin-book.ts'
import { experimentArms, rolloutArms } from './release-arms.ts'
import { isRolloutRecord, pinTo, type HeldVersion, type ArmVersion, type ExperimentRecord, type ReleaseNote, type RolloutRecord } from './release-record.ts' // prettier-ignore
import { ReleaseSync } from './release-sync.ts'
import type { ReleaseStore } from './release-store.ts'
import { problemText, type FoundRolloutFile } from './rollout-files.ts'
import { releaseFigures, type ReleaseRun } from './release-json.ts'
import { RolloutRun, type RolloutAction, type RunParts } from './rollout-run.ts'
import { VersionLabels } from './version-labels.ts'
import { selectRelease } from './select-release.ts'

type ControlParts = Pick<RunParts, 'audit' | 'outbox' | 'shared'> & {
  readonly clock: Clock
  readonly log: Log
  readonly fleet: ModelFleet
  readonly store: ReleaseStore
  readonly openTraffic: OpenTraffic
  readonly openExperiment: OpenExperiment
}

type NewRollout = {
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

/** Rollouts that have ended are kept; beyond this many the oldest ones are forgotten. */
const mostRollouts = 1000
const mostNotes = 200
const longestNote = 4096
const tickNs = 1e9

export class ReleaseControl implements VersionRule {
  readonly #parts: ControlParts
  readonly #log: Log
  readonly pins: PinBook
  readonly labels: VersionLabels
  /** By name, oldest first. */
  readonly #runs = new Map<string, ReleaseRun>()
  /** Models for which a rollout is being made. */
  readonly #beginning = new Set<string>()
  /** New versions that a look at the repository has found, by model. */
  readonly #newcomers = new Map<string, { readonly version: string; readonly file: FoundRolloutFile }>()
  readonly #takeovers = new Map<string, { readonly version: string; readonly repository: string }>()
  /** What was last said about a rollout file, by model. */
  readonly #reported = new Map<string, string>()
  readonly #watchers = new Set<(run: ReleaseRun) => void>()
  #cancelTick: Cancel | null = null
  #sync: ReleaseSync | null = null
  #isClosed = false

  constructor(parts: ControlParts) {
    this.#parts = parts
    this.#log = parts.log.from('release-control.ts')
    this.pins = new PinBook(parts.fleet, parts.store)
    const candidateOf = (model: string): string | null => {
      const live = this.liveOf(model)
      return live?.kind === 'rollout' && live.candidate.model === model ? live.candidate.version : null
    }
    this.labels = new VersionLabels(parts.fleet, this.pins, candidateOf)
  }

  /** Before the models are loaded: the standard versions must be known by then. */
  async restore(): Promise<void> {
    const { records, pins } = await this.#parts.store.read()
    this.pins.restore(pins)
    for (const record of records.toSorted((a, b) => a.createdMs - b.createdMs)) {
      this.#runs.set(record.name, isRolloutRecord(record) ? this.#run(record) : this.#experiment(record))
    }
  }

  /** Another server has changed a rollout. */
  readonly heard = (): void => void this.#sync?.now()

  /** After the models are loaded. */
  async start(): Promise<void> {
    const { shared, clock } = this.#parts
    if (shared !== null) {
      const join = (record: RolloutRecord): Promise<RolloutRun | null> => this.#join(record)
      const back = (): void => void this.#tryNewcomers()
      this.#sync = new ReleaseSync({ clock, log: this.#log, shared, runs: () => this.#rollouts(), join, back })
      await this.#sync.now()
      this.#sync.start()
    }
    for (const run of this.#runs.values()) if (!run.isOver) run.restored()
    this.#tickLater()
    for (const { name, namespace } of this.#parts.fleet.engine.index()) {
      await this.afterLoad(namespace === undefined ? name : `${namespace}::${name}`, false).catch((reason: unknown) =>
        this.#log.error(`the rollout of model '${name}' could not be started: ${messageOf(reason)}`),
      )
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelTick?.()
    this.#sync?.close()
    await Promise.all(this.#runs.values().map((run) => run.close()))
    await this.#parts.store.close()
    await this.#parts.shared?.close()
  }

  /** Newest first. */
  list(): ReleaseRun[] {
    return [...this.#runs.values()].toReversed()
  }

  /** Throws NOT_FOUND. */
  get(name: string): ReleaseRun {
    const run = this.#runs.get(name)
    if (run !== undefined) return run
    throw ServerError.withoutStack('NOT_FOUND', `there is no rollout '${name.slice(0, 200)}'; GET /v2/rollouts lists them`) // prettier-ignore
  }

  /** Throws NOT_FOUND when there is no such model. */
  async fileOf(model: string): Promise<FoundRolloutFile> {
    return this.#parts.fleet.rolloutFile(await this.#parts.fleet.poll(model))
  }

  /** For metrics. */
  readonly rollouts = (): readonly RolloutFigures[] =>
    this.#runs
      .values()
      .map((run) => releaseFigures(run))
      .toArray()

  /** For metrics. */
  readonly results = (): ReadonlyMap<string, number> => {
    const results = new Map<string, number>()
    for (const { isLive, record } of this.#runs.values()) {
      const { phase } = record.state
      if (!isLive && phase !== 'ROLLING_BACK')
        results.set(phase.toLowerCase(), (results.get(phase.toLowerCase()) ?? 0) + 1)
    }
    return results
  }

  #rollouts(): Map<string, RolloutRun> {
    return new Map(
      this.#runs.values().flatMap((run) => (run.kind === 'rollout' ? [[run.record.name, run] as const] : [])),
    )
  }

  liveOf(model: string): ReleaseRun | null {
    return this.#runs.values().find((run) => run.record.model === model && run.isLive) ?? null
  }

  /** Calls `watch` after every change of a rollout; the result takes it back. */
  watch(watch: (run: ReleaseRun) => void): () => void {
    this.#watchers.add(watch)
    return () => void this.#watchers.delete(watch)
  }

  /** Throws ALREADY_EXISTS when the state of the rollout forbids it. */
  act(name: string, action: RolloutAction, caller: Caller, reason: string, arm: string): ReleaseRun {
    const run = this.get(name)
    const why = reason === '' ? `somebody asked for it` : reason
    const refusal = run.act({ action, by: callerName(caller), groups: caller.groups, why, arm })
    if (refusal !== null) throw ServerError.withoutStack('ALREADY_EXISTS', refusal)
    return run
  }

  async note(name: string, caller: Caller, text: string): Promise<ReleaseRun> {
    const run = this.get(name)
    if (text.trim() === '') throw new ServerError('INVALID_ARG', 'a note needs a text: send {"text": "…"}')
    if (text.length > longestNote) throw new ServerError('INVALID_ARG', `a note has at most ${longestNote} characters, got ${text.length}`) // prettier-ignore
    if (run.record.notes.length >= mostNotes) throw new ServerError('INVALID_ARG', `rollout '${name}' has ${mostNotes} notes, which is the most`) // prettier-ignore
    const note: ReleaseNote = { at: new Date(this.#parts.clock.wallMs()).toISOString(), by: callerName(caller), text }
    await run.note(note)
    return run
  }

  /** Throws ALREADY_EXISTS when the model has a live rollout, and INVALID_ARG for versions that are not there. */
  async create(wanted: NewRollout): Promise<ReleaseRun> {
    const { model } = wanted
    const live = this.liveOf(model)
    if (live !== null || this.#beginning.has(model)) {
      const which =
        live === null ? 'a rollout' : `the ${live.kind} '${live.record.name}', which is ${live.record.state.phase}`
      throw new ServerError('ALREADY_EXISTS', `model '${model}' has ${which}: end it first, by promote or rollback`)
    }
    this.#beginning.add(model)
    try {
      return await this.#create(wanted)
    } finally {
      this.#beginning.delete(model)
    }
  }

  async #create(wanted: NewRollout): Promise<ReleaseRun> {
    const { fleet } = this.#parts
    const { model, plan } = wanted
    this.#requireFree(wanted.name)
    if (fleet.isUploaded(model)) {
      throw new ServerError('INVALID_ARG', `model '${model}' serves files that came with a load request: rollouts need versions in a repository`) // prettier-ignore
    }
    if (plan.kind === 'experiment') return await this.#createExperiment({ ...wanted, plan })
    if (plan.judge.metrics.some(({ test }) => test === 'promql') && !this.#parts.outbox.hasPrometheus) {
      throw new ServerError(
        'INVALID_ARG',
        `'judge.metrics' has a query of Prometheus, and the server knows none: start it with --prometheus-url`,
      )
    }
    return await this.#createRollout({ ...wanted, plan })
  }

  async #createRollout(wanted: NewRollout & { readonly plan: RolloutPlan }): Promise<RolloutRun> {
    const { clock, fleet } = this.#parts
    const { model, plan } = wanted
    const polled = await fleet.poll(model)
    const arms = await rolloutArms({ fleet, pins: this.pins }, wanted, polled)
    const name = this.#nameOf(wanted, arms[1] as ArmVersion)
    const transition = createRollout({ name, model, author: wanted.author, why: wanted.why }, { nowNs: clock.nowNs(), wallMs: clock.wallMs() }) // prettier-ignore
    const record: RolloutRecord = {
      name,
      model,
      author: wanted.author,
      createdMs: clock.wallMs(),
      spec: wanted.spec,
      plan,
      state: transition.state,
      arms,
      evidence: {},
      notes: [],
      report: null,
    }
    const other = (await this.#parts.shared?.write(record, 0)) ?? null
    if (other !== null) return this.#joinInstead(other)
    // Where nothing can be kept there is no rollout: a restart would let the highest version win.
    await this.#parts.store.saveRecord(record)
    const pins = this.pins.in(model, polled.repositoryPath)
    const newest = pins?.newest || fleet.standardOf(model)
    await this.pins.change(model, polled.repositoryPath, { ...pinTo(model, arms[0] as ArmVersion), newest })
    const run = this.#run(record, polled.repositoryPath, record.state.generation)
    this.#runs.set(name, run)
    this.#forgetOldest()
    run.begin(transition)
    this.#tickLater()
    return run
  }

  async #createExperiment(wanted: NewRollout & { readonly plan: ExperimentPlan }): Promise<ExperimentRun> {
    const { clock, fleet, shared, store } = this.#parts
    const { model, plan, author, spec, why } = wanted
    if (shared !== null) throw new ServerError('UNSUPPORTED', 'an experiment runs on one server alone: this server shares its rollouts through --rollout-store') // prettier-ignore
    const polled = await fleet.poll(model)
    const arms = await experimentArms({ fleet, pins: this.pins }, wanted, polled)
    const control = (arms[0] as ArmVersion).version
    const name = this.#nameOf(wanted, arms.at(-1) as ArmVersion)
    const createdMs = clock.wallMs()
    const transition = createExperiment({ name, author, why }, { nowNs: clock.nowNs(), wallMs: createdMs })
    const { state } = transition
    const record = { name, model, author, createdMs, spec, plan, state, arms, evidence: {}, goals: {}, notes: [], report: null } // prettier-ignore
    await store.saveRecord(record)
    const newest = this.pins.in(model, polled.repositoryPath)?.newest || fleet.standardOf(model) || control
    await this.pins.change(model, polled.repositoryPath, { standard: control, newest })
    const run = this.#experiment(record, polled.repositoryPath)
    this.#runs.set(name, run)
    this.#forgetOldest()
    run.begin(transition)
    this.#tickLater()
    return run
  }

  /** Another server was quicker with a rollout of the same name. */
  async #joinInstead(record: RolloutRecord): Promise<RolloutRun> {
    const known = this.#runs.get(record.name)
    const run = known === undefined ? await this.#join(record) : known
    if (run?.kind !== 'rollout')
      throw new ServerError(
        'ALREADY_EXISTS',
        `another server has the rollout '${record.name}', which this server cannot join`,
      )
    run.adopt(record)
    this.#tickLater()
    return run
  }

  #requireFree(name: string): void {
    if (name === '') return
    if (!/^[\w.-]{1,100}$/.test(name)) {
      throw new ServerError(
        'INVALID_ARG',
        `'name' must have 1 to 100 letters, digits, _, - and ., got '${name.slice(0, 120)}'`,
      )
    }
    if (!this.#runs.has(name)) return
    throw new ServerError('ALREADY_EXISTS', `there is a rollout '${name}' already: give another name`)
  }

  /** Users are drawn by the name, so each rollout has another one. */
  #nameOf({ name, model }: NewRollout, { version }: ArmVersion): string {
    if (name !== '') return name
    const base = `${model.replaceAll(/[^\w.-]+/g, '-').slice(0, 60)}-${version}`
    for (let i = 1; ; i++) {
      const free = i === 1 ? base : `${base}.${i}`
      if (!this.#runs.has(free)) return free
    }
  }

  async select(key: ModelKey, polled: FoundModel, isRenewal: boolean): Promise<readonly string[] | null> {
    const model = labelOfKey(key)
    const { fleet } = this.#parts
    const file = await fleet.rolloutFile(polled)
    this.#reportFile(model, file)
    const pins = this.pins.in(model, polled.repositoryPath)
    const runs = this.#runs
      .values()
      .filter((run) => !run.isOver && run.record.arms.some((arm) => arm.model === model))
      .toArray()
    const serving = this.pins.servingOthers(model)
    if (pins === null && file.file === '' && runs.length === 0 && serving.length === 0) return null
    const standard = pins?.standard || fleet.standardOf(model)
    const { chosen, newcomer, takesOver } = selectRelease({
      present: polled.versions,
      ofPolicy: (versions) => selectVersions(polled.config.versionPolicy, versions),
      held: await this.#heldIn(polled, pins?.held ?? []),
      standard,
      newest: pins?.newest || standard,
      hasFile: file.file !== '',
      isRenewal,
      needed: new Set([...serving, ...runs.flatMap((run) => run.neededVersions(model))]),
      candidates: new Set(runs.filter((run) => run.isLive).flatMap((run) => run.broughtVersions(model))),
    })
    const isWaiting = newcomer !== null && file.file !== ''
    this.#note(this.#newcomers, model, isWaiting ? { version: newcomer, file } : null)
    const repository = polled.repositoryPath
    this.#note(this.#takeovers, model, takesOver === null || pins === null ? null : { version: takesOver, repository })
    return chosen
  }

  #note<T>(map: Map<string, T>, model: string, value: T | null): void {
    if (value === null) map.delete(model)
    else map.set(model, value)
  }

  async #heldIn(polled: FoundModel, held: readonly HeldVersion[]): Promise<Set<string>> {
    const found = new Set<string>()
    for (const { version, hash, model: other } of held) {
      // Another model serves under its own name as before.
      if (other !== undefined || !polled.versions.includes(version)) continue
      if ((await this.#parts.fleet.hashOf(polled, version)) === hash) found.add(version)
    }
    return found
  }

  async afterLoad(name: string, isAsked: boolean): Promise<string> {
    const { fleet } = this.#parts
    const served = fleet.engine.servedModel(name)
    if (served === undefined) return ''
    const model = served.label
    const takeover = this.#takeovers.get(model)
    if (takeover !== undefined) {
      this.#takeovers.delete(model)
      await this.pins.change(model, takeover.repository, { standard: '', newest: takeover.version })
    }
    const newcomer = this.#newcomers.get(model)
    this.#newcomers.delete(model)
    if (newcomer === undefined) {
      await this.#pinFirst(model)
      return ''
    }
    return await this.#bringIn(model, newcomer, isAsked).catch((reason: unknown) => {
      // The shared store may be away: then the version waits for it.
      if (this.#parts.shared?.isAway === true) this.#newcomers.set(model, newcomer)
      throw reason
    })
  }

  async #tryNewcomers(): Promise<void> {
    for (const model of this.#newcomers.keys().toArray()) {
      await this.afterLoad(model, false).catch((reason: unknown) => this.#log.error(messageOf(reason)))
    }
  }

  /** A model with a rollout file remembers which version serves: one that comes while the server is down is new, too. */
  async #pinFirst(model: string): Promise<void> {
    const { fleet } = this.#parts
    const standard = fleet.standardOf(model)
    if (standard === '' || this.pins.of(model) !== null || fleet.isUploaded(model)) return
    const polled = await fleet.poll(model).catch(() => null)
    if (polled === null || (await fleet.rolloutFile(polled)).file === '') return
    await this.pins.change(model, polled.repositoryPath, { standard, newest: standard }).catch((reason: unknown) => {
      this.#log.error(`the version of model '${model}' cannot be kept: ${messageOf(reason)}`)
    })
  }

  async #bringIn(
    model: string,
    { version, file }: { readonly version: string; readonly file: FoundRolloutFile },
    isAsked: boolean,
  ): Promise<string> {
    if (file.plan === null) {
      const [first] = file.problems
      const why = `version ${version} of model '${model}' waits: the rollout file has a mistake: ${first === undefined ? '' : problemText(file.file, first)}`
      if (isAsked) throw new ServerError('INVALID_ARG', why)
      this.#log.error(why)
      return ''
    }
    if (file.plan.kind === 'experiment' && !namesVersion(file.plan, version)) {
      const why = `version ${version} of model '${model}' waits: the experiment in '${file.file}' has no arm with this version`
      if (isAsked) throw new ServerError('INVALID_ARG', why)
      this.#log.warning(why)
      return ''
    }
    // Another server may have begun the same rollout a moment ago.
    await this.#sync?.now()
    const live = this.liveOf(model)
    if (live?.broughtVersions(model).includes(version) === true) {
      if (isAsked) await this.#begun(live)
      return live.record.name
    }
    if (live !== null) {
      const refusal =
        live.kind === 'rollout'
          ? live.dispatch({ type: 'superseded', version })
          : `version ${version} of model '${model}' waits for the end of the experiment '${live.record.name}'`
      if (refusal !== null) {
        this.#log.info(refusal)
        return ''
      }
    }
    const plan = file.plan.kind === 'experiment' ? file.plan : { ...file.plan, candidate: { model: null, version } }
    const why = `version ${version} has appeared`
    const wanted = { name: '', model, plan, spec: file.spec, author: '', why, isRetry: false }
    const run = await this.create(wanted)
    if (isAsked) await this.#begun(run)
    return run.record.name
  }

  /** Resolves when the rollout runs; throws when it fails before. */
  #begun(run: ReleaseRun): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const { phase, why } = run.record.state
        if (phase === 'PENDING') return
        stop()
        if (phase === 'FAILED')
          reject(new ServerError('INVALID_ARG', `load failed for model '${run.record.model}': the rollout '${run.record.name}' failed: ${why}`)) // prettier-ignore
        else resolve()
      }
      const stop = this.watch((changed) => (changed === run ? look() : undefined))
      look()
    })
  }

  /** Another server has begun the rollout. Null: it cannot be joined, or not yet. */
  async #join(record: RolloutRecord): Promise<RolloutRun | null> {
    const { fleet } = this.#parts
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
      if (this.#reported.get(`join ${name}`) !== problem)
        this.#log.warning(`rollout '${name}' is not joined: ${problem}`)
      this.#reported.set(`join ${name}`, problem)
      return null
    }
    const { state } = createRollout({ name, model, author: record.author, why: 'another server has begun it' }, { nowNs: this.#parts.clock.nowNs(), wallMs: record.createdMs }) // prettier-ignore
    const isOpen = isLive(record.state)
    if (isOpen) {
      const newest = this.pins.in(model, polled.repositoryPath)?.newest || fleet.standardOf(model)
      await this.pins.change(model, polled.repositoryPath, { ...pinTo(model, arms[0] as ArmVersion), newest })
    }
    const run = this.#run({ ...record, evidence: {}, state }, polled.repositoryPath)
    this.#runs.set(name, run)
    if (isOpen) run.dispatch({ type: 'restored' })
    return run
  }

  #run(
    record: RolloutRecord,
    repository = this.pins.of(record.model)?.repository ?? '',
    sharedGeneration = 0,
  ): RolloutRun {
    const parts: RunParts = {
      ...this.#parts,
      log: this.#log,
      pins: this.pins,
      save: (kept) => this.#parts.store.saveRecord(kept),
      changed: (run) => this.#changed(run),
    }
    return new RolloutRun(parts, { repository, sharedGeneration }, record)
  }

  #experiment(record: ExperimentRecord, repository = this.pins.of(record.model)?.repository ?? ''): ExperimentRun {
    const parts = {
      ...this.#parts,
      log: this.#log,
      pins: this.pins,
      save: (kept: ExperimentRecord) => this.#parts.store.saveRecord(kept),
      changed: (run: ExperimentRun) => this.#changed(run),
      released: () => void this.#tryNewcomers(),
    }
    return new ExperimentRun(parts, repository, record)
  }

  #changed(run: ReleaseRun): void {
    for (const watch of this.#watchers) watch(run)
    this.#tickLater()
  }

  /** A server without rollouts has no timer. */
  #tickLater(): void {
    if (this.#cancelTick !== null || this.#isClosed) return
    if (!this.#runs.values().some((run) => !run.isOver)) return
    this.#cancelTick = this.#parts.clock.after(tickNs, () => {
      this.#cancelTick = null
      for (const run of this.#runs.values()) {
        if (run.isOver) continue
        try {
          run.tick()
        } catch (reason) {
          this.#log.error(`rollout '${run.record.name}' could not be judged: ${messageOf(reason)}`)
        }
      }
      this.#tickLater()
    })
  }

  #forgetOldest(): void {
    const over = this.#runs
      .values()
      .filter((run) => run.isOver)
      .toArray()
    for (const run of over.slice(0, Math.max(0, this.#runs.size - mostRollouts))) {
      this.#runs.delete(run.record.name)
      void this.#parts.store.removeRecord(run.record.name).catch(() => undefined)
    }
  }

  #reportFile(model: string, { file, problems }: FoundRolloutFile): void {
    const text = problems.map((problem) => problemText(file, problem)).join('\n')
    if ((this.#reported.get(model) ?? '') === text) return
    this.#reported.set(model, text)
    for (const line of text.split('\n')) if (line !== '') this.#log.error(`rollout file of model '${model}': ${line}`)
  }
}

/** Whether one of the arms is this version of the model that has the file. */
const namesVersion = ({ arms }: ExperimentPlan, version: string): boolean =>
  arms.some(({ reference: { model, version: named } }) => model === null && (named === version || named === 'latest'))

const callerName = ({ principal }: Caller): string => principal
