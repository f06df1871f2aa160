// One experiment while the server runs: sends events to the reducer, and carries out the effects that the reducer asks for.

import { messageOf, ServerError } from '../base/server-error.ts'
import { compareVersions } from '../repository/version-policy.ts'
import { fullWeight } from '../rollouts/assignment.ts'
import { GoalValues } from '../rollouts/judge/experiment-report.ts'
import { experimentAdoption, isExperimentOpen, reduceExperiment, type ExperimentEffect, type ExperimentEvent, type ExperimentTransition } from '../rollouts/reduce-experiment.ts' // prettier-ignore
import { experimentMarkdown, reportExperiment, reportGoals, winnerOfGoals, type ExperimentReport, type GoalReport } from '../rollouts/report-experiment.ts' // prettier-ignore
import type { NotifyEvent } from '../rollouts/rollout-plan.ts'
import type { Moment } from '../rollouts/rollout-state.ts'
import type { ExperimentTraffic, OpenExperiment } from './experiment-traffic.ts'
import type { ArmOutcomes } from './live-traffic.ts'
import { isRolloutRecord, noteText, pinTo, type ArmVersion, type ExperimentRecord, type ReleaseNote, type ReleaseRecord } from './release-record.ts' // prettier-ignore
import type { RunCall, RunParts, RunSettings } from './rollout-run.ts'
import type { ServerEvidence } from './shared-rollouts.ts'
import { generationOf, StateSharing } from './state-sharing.ts'
import { signatureDifference } from './signature-difference.ts'

type ExperimentParts = Pick<RunParts, 'clock' | 'log' | 'fleet' | 'pins' | 'save' | 'audit' | 'outbox' | 'shared'> & {
  readonly openExperiment: OpenExperiment
  /** Somebody may want to see the new state. */
  changed(run: ExperimentRun): void
  /** The experiment is over and its versions are let go: a version that waited for that may come. */
  released(): void
}

/** Values are kept this often while nothing else changes. They may be megabytes. */
const keepValuesNs = 15e9
const sendValuesNs = 5e9

const events: Readonly<Partial<Record<string, NotifyEvent>>> = {
  start: 'started',
  pause: 'paused',
  resume: 'resumed',
  end: 'succeeded',
  promote: 'succeeded',
  fail: 'failed',
}

export class ExperimentRun {
  readonly kind = 'experiment'
  readonly #parts: ExperimentParts
  readonly #repository: string
  #record: ExperimentRecord
  readonly #sharing: StateSharing
  #traffic: ExperimentTraffic | null = null
  #outcomes: readonly ArmOutcomes[] = []
  #goals: readonly GoalReport[]
  /** Values that `#goals` tells of, and values that were kept. */
  #toldChanges = 0
  #toldOthers: readonly ServerEvidence[] = []
  #keptChanges = 0
  #keptNs = 0
  /** Values that the other servers have; -1: those of before a restart, or none. */
  #sentChanges = -1
  #sentNs = 0
  #isWanted: boolean
  #isLoading = false
  #promoting: Promise<void> = Promise.resolve()

  constructor(parts: ExperimentParts, { repository, sharedGeneration }: RunSettings, record: ExperimentRecord) {
    this.#parts = parts
    this.#repository = repository
    this.#sharing = new StateSharing(parts, this, sharedGeneration)
    this.#record = record
    this.#isWanted = this.isLive
    const { plan, arms, goals } = record
    this.#goals = reportGoals(plan, new Map(plan.goals.map((goal) => [goal, new GoalValues(arms.length, goals[goal])])))
  }

  get record(): ExperimentRecord {
    return this.#record
  }

  get isLive(): boolean {
    return isExperimentOpen(this.#record.state)
  }

  /** Ticks are of no use any more. */
  get isOver(): boolean {
    return !this.isLive
  }

  get goals(): readonly GoalReport[] {
    return this.#goals
  }

  /** The versions of the model that must be in memory, whatever the version policy says. */
  neededVersions(model: string): string[] {
    return this.#isWanted ? this.#versionsOf(model) : []
  }

  /** Versions of the model that are new no more. */
  broughtVersions(model: string): string[] {
    if (model !== this.#record.model) return []
    return this.#versionsOf(model).filter((version) => version !== this.#record.arms[0]?.version)
  }

  #versionsOf(model: string): string[] {
    return this.#record.arms.flatMap((arm) => (arm.model === model ? [arm.version] : []))
  }

  begin({ effects }: ExperimentTransition): void {
    this.#keep()
    this.#carryOut(effects)
    this.#parts.changed(this)
  }

  restored(): void {
    this.dispatch({ type: 'restored' })
  }

  /** Why the call cannot be done in this state; null where it was done, or was so already. Throws INVALID_ARG for an arm that is not there. */
  act({ action, by, why, arm }: RunCall): string | null {
    const { name, state, arms } = this.#record
    const known = arms.map((one) => one.arm)
    if (arm !== '' && action !== 'promote') throw wrong(`'arm' goes with promote alone, not with ${action}`)
    if (action === 'pause' || action === 'resume') return this.dispatch({ type: action, by, why })
    if (action === 'rollback') return this.dispatch({ type: 'end', arm: null, by, why })
    if (action !== 'promote') return `'${name}' is an experiment, which has no steps: it knows pause, resume, promote and rollback` // prettier-ignore
    const wanted = arm === '' ? state.winner : arm
    if (wanted === null) return `no arm of experiment '${name}' beats the first one for certain: name one, as {"arm": "${known[1] ?? ''}"}` // prettier-ignore
    if (!known.includes(wanted)) throw wrong(`experiment '${name}' has no arm '${wanted.slice(0, 100)}', it has ${known.join(', ')}`) // prettier-ignore
    return this.dispatch({ type: 'end', arm: wanted, by, why })
  }

  dispatch(event: ExperimentEvent): string | null {
    const before = this.#record.state
    const { state, effects, refusal } = reduceExperiment(this.#record.plan, before, event, this.#now())
    this.#record = { ...this.#record, state }
    // The weights go first. Nothing is awaited before them.
    this.#carryOut(effects)
    if (state.phase !== before.phase) {
      this.#keep()
      this.#sharing.push()
      this.#parts.changed(this)
    }
    return refusal
  }

  tick(): void {
    this.#refresh()
    this.#sendValues()
    const isSplitOdd = this.#record.state.phase === 'RUNNING' && (this.#traffic?.isSplitOdd() ?? false)
    const { shared } = this.#parts
    const isLeader = shared === null || shared.isLeader(this.#record.name)
    this.dispatch({ type: 'tick', winner: winnerOfGoals(this.#goals), isSplitOdd, isLeader })
    const isDue = this.#parts.clock.nowNs() - this.#keptNs >= keepValuesNs
    if (this.isLive && isDue && this.#toldChanges !== this.#keptChanges) this.#keep()
  }

  note(note: ReleaseNote): Promise<void> {
    this.#record = { ...this.#record, notes: [...this.#record.notes, note] }
    this.#parts.audit(this.#record, 'note', note.by, note.text)
    this.#parts.changed(this)
    return this.#save()
  }

  /** Ended requests of each arm, as long as the server runs. */
  outcomes(): readonly ArmOutcomes[] {
    return this.#traffic?.outcomes() ?? this.#outcomes
  }

  /** Figures are those of the end, once there is an end; the history goes on. */
  report(): ExperimentReport {
    if (this.isLive) this.#refresh()
    const now = this.#reportNow()
    const frozen = this.#record.report as ExperimentReport | null
    return frozen === null ? now : { ...now, goals: frozen.goals }
  }

  reportText(): string {
    return experimentMarkdown(this.report())
  }

  /** At exit: what was counted is kept, and nothing is changed. */
  async close(): Promise<void> {
    if (this.isLive) await this.#save().catch(() => undefined)
  }

  #reportNow(): ExperimentReport {
    const { plan, state, model, author, arms, notes } = this.#record
    const versions = arms.map(({ version }) => version)
    return reportExperiment({ plan, state, model, author, versions, goals: this.#goals, notes: notes.map(noteText) })
  }

  #sendValues(): void {
    const { shared, clock } = this.#parts
    const traffic = this.#traffic
    if (shared === null || traffic === null || this.#sentChanges === traffic.changes()) return
    if (this.#sentChanges !== -1 && clock.nowNs() - this.#sentNs < sendValuesNs) return
    this.#sentChanges = traffic.changes()
    this.#sentNs = clock.nowNs()
    shared.report(this.#record.name, { sums: {}, requests: 0, compared: 0, goals: traffic.kept() })
  }

  get sharedGeneration(): number {
    return this.#sharing.generation
  }

  setGeneration(generation: number): void {
    this.#record = { ...this.#record, state: { ...this.#record.state, generation } }
  }

  /** Takes over what another server has written, and does what that means for this server. */
  adopt(record: ReleaseRecord): void {
    if (isRolloutRecord(record)) return
    this.#sharing.generation = generationOf(record)
    const before = this.#record.state
    // Another server went on before it could hear of the end: the end is written once more.
    if (!isExperimentOpen(before) && isExperimentOpen(record.state)) {
      this.#sharing.push()
      return
    }
    const state = { ...record.state, seenNs: this.#parts.clock.nowNs() }
    this.#record = { ...this.#record, state, notes: record.notes, report: record.report ?? this.#record.report }
    this.#carryOut(experimentAdoption(this.#record.plan, before, state))
    this.#keep()
    this.#parts.changed(this)
  }

  /** Weights stay. Nothing ends by time, because nobody leads. */
  storeLost(): void {
    this.#parts.log.warning(
      `experiment '${this.#record.name}' goes on, and does not end by itself until the store is back`,
    )
  }

  storeBack(): void {
    this.#sharing.push()
  }

  /** The report is made again only where values came. */
  #refresh(): void {
    const { shared } = this.#parts
    const { name } = this.#record
    const changes = this.#traffic?.changes() ?? 0
    const others = shared?.others(name) ?? this.#toldOthers
    if (this.#traffic === null || (changes === this.#toldChanges && others === this.#toldOthers)) return
    this.#toldChanges = changes
    this.#toldOthers = others
    this.#goals = this.#traffic.goals(others.map(({ goals }) => goals ?? {}))
  }

  #now(): Moment {
    const { clock } = this.#parts
    return { nowNs: clock.nowNs(), wallMs: clock.wallMs() }
  }

  #save(): Promise<void> {
    this.#keptNs = this.#parts.clock.nowNs()
    this.#keptChanges = this.#toldChanges
    if (this.#traffic !== null) this.#record = { ...this.#record, goals: this.#traffic.kept() }
    return this.#parts.save(this.#record)
  }

  #keep(): void {
    this.#save().catch((reason: unknown) => {
      this.#parts.log.error(`experiment '${this.#record.name}' cannot be kept: ${messageOf(reason)}`)
    })
  }

  #carryOut(effects: readonly ExperimentEffect[]): void {
    for (const effect of effects) this.#do(effect)
  }

  #do(effect: ExperimentEffect): void {
    switch (effect.do) {
      case 'set-arm-weights':
        // The arms could not be loaded before the pause: they are tried again.
        if (this.#traffic === null && this.#record.state.phase === 'RUNNING') void this.#load()
        else this.#traffic?.setWeights(effect.weights)
        return
      case 'load-arms':
        void this.#load()
        return
      case 'freeze-report':
        this.#refresh()
        this.#record = { ...this.#record, report: this.#reportNow() }
        return
      case 'promote-arm':
        this.#promoting = this.#promote(effect.arm)
        return
      case 'unload-arms':
        void this.#unload()
        return
      case 'audit':
      default:
        this.#tell(effect)
    }
  }

  #tell({ action, by, why }: Extract<ExperimentEffect, { readonly do: 'audit' }>): void {
    this.#parts.audit(this.#record, action, by, why)
    const event = events[action]
    if (event !== undefined) this.#parts.outbox.notify(this.#record, event, why)
  }

  async #load(): Promise<void> {
    if (this.#isLoading) return
    this.#isLoading = true
    this.#isWanted = true
    try {
      await this.#renew()
      this.#requireAlike()
      await this.#markKnown()
      // Somebody may have ended the experiment in the meantime.
      if (!this.isLive) return
      this.#traffic?.close()
      this.#traffic = this.#parts.openExperiment(this.#record)
      this.#isLoading = false
      this.dispatch({ type: 'arms-ready' })
    } catch (reason) {
      if (!this.isLive) return
      if (this.#record.state.phase === 'PENDING') await this.#holdBroken()
      this.dispatch({ type: 'load-failed', why: messageOf(reason).trimEnd() })
    } finally {
      this.#isLoading = false
    }
  }

  /** A model that somebody has unloaded stays unloaded. */
  async #renew(): Promise<void> {
    const { fleet } = this.#parts
    const { model, arms } = this.#record
    for (const name of new Set(arms.map((arm) => arm.model))) {
      if (name === model || fleet.standardOf(name) !== '') await fleet.renew(name)
    }
  }

  /** A request may go to any arm, so all of them take and give the same. */
  #requireAlike(): void {
    const { fleet } = this.#parts
    const served = this.#record.arms.map(({ arm, model, version }) => {
      const found = fleet.version(model, version)
      if (found !== null) return found
      throw new Error(`version ${version} of model '${model}', which is the arm '${arm}', does not serve`)
    })
    const [control, ...others] = served
    for (const other of control === undefined ? [] : others) {
      const difference = control === undefined ? '' : signatureDifference(control.signature, other.signature)
      if (difference === '') continue
      throw new Error(`version ${other.version} has other inputs or outputs than version ${control?.version}: ${difference}`) // prettier-ignore
    }
  }

  /** The versions of an experiment that ran do not take over by themselves after its end. */
  async #markKnown(): Promise<void> {
    const { pins } = this.#parts
    const { model } = this.#record
    const known = pins.in(model, this.#repository)?.newest ?? ''
    const newest = [known, ...this.#versionsOf(model)].filter((version) => version !== '').toSorted(compareVersions).at(-1) // prettier-ignore
    if (newest !== undefined && newest !== known) await pins.change(model, this.#repository, { newest })
  }

  /** Otherwise each look at the repository would begin the same experiment again. */
  async #holdBroken(): Promise<void> {
    const { pins, fleet, log } = this.#parts
    const { model, name, arms } = this.#record
    const control = arms[0]?.version
    for (const { model: ofModel, version, hash } of arms) {
      if (ofModel !== model || version === control || fleet.version(model, version) !== null) continue
      await pins.hold(model, this.#repository, { version, hash, rollout: name }).catch((reason: unknown) => {
        log.error(`version ${version} of model '${model}' could not be held: ${messageOf(reason)}`)
      })
    }
  }

  async #promote(arm: string): Promise<void> {
    const { model, name } = this.#record
    const winner = this.#record.arms.find((one) => one.arm === arm) as ArmVersion
    const { version } = winner
    await this.#parts.pins.change(model, this.#repository, pinTo(model, winner)).catch((reason: unknown) => {
      this.#parts.log.error(`experiment '${name}': version ${version} is the default version until the next restart only, because it cannot be kept: ${messageOf(reason)}`) // prettier-ignore
    })
  }

  /** On all arms but the one that stays. None begins there any more. */
  async #sequencesEnded(kept: string): Promise<void> {
    const leaving = this.#record.arms.filter(({ arm }) => arm !== kept)
    for (const { model, version } of leaving) await this.#parts.fleet.version(model, version)?.sequencesEnded()
  }

  async #unload(): Promise<void> {
    const { log } = this.#parts
    const { state, name } = this.#record
    const traffic = this.#traffic
    this.#outcomes = this.outcomes()
    // Whoever waits for an arm that goes away is served by the control. After a promotion everybody ends where he is.
    if (state.promoted === null) traffic?.withdraw()
    if (traffic !== null) this.#record = { ...this.#record, goals: traffic.kept() }
    this.#traffic = null
    try {
      await this.#promoting
      const kept = state.promoted ?? this.#record.arms[0]?.arm
      traffic?.setWeights(this.#record.arms.map(({ arm }) => (arm === kept ? fullWeight : 0)))
      // Until then requests of sequences find their arm through the router.
      await this.#sequencesEnded(kept ?? '')
      traffic?.close()
      this.#isWanted = false
      await this.#renew()
      this.#parts.released()
    } catch (reason) {
      log.error(`experiment '${name}' could not unload its arms: ${messageOf(reason)}`)
    }
  }
}

const wrong = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)
