// One rollout while the server runs: sends events to the reducer, and carries out the effects that the reducer asks for.

import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { ServedVersion } from '../engine/serving/served-version.ts'
import { judgeRollout, type Judgement } from '../rollouts/judge/judge-rollout.ts'
import { addEvidence, type EvidenceSums } from '../rollouts/judge/metric-sums.ts'
import { adoptionEffects, isWithdrawn } from '../rollouts/adoption-effects.ts'
import { reduceRollout } from '../rollouts/reduce-rollout.ts'
import { reportMarkdown, reportRollout, type RolloutReport } from '../rollouts/rollout-report.ts'
import { isLive, type Moment, type RolloutAudit, type RolloutEffect, type RolloutEvent, type Transition } from '../rollouts/rollout-state.ts' // prettier-ignore
import type { ArmOutcomes, LiveTraffic, OpenTraffic, ShadowStep } from './live-traffic.ts'
import type { ModelFleet } from './model-fleet.ts'
import type { Outbox } from './outbox.ts'
import type { PinBook } from './pin-book.ts'
import {
  isRolloutRecord,
  noteText,
  pinTo,
  type ArmVersion,
  type ReleaseNote,
  type ReleaseRecord,
  type RolloutRecord,
} from './release-record.ts'
import type { ServerEvidence, SharedRollouts } from './shared-rollouts.ts'
import { StateSharing } from './state-sharing.ts'
import { signatureDifference } from './signature-difference.ts'

export type RolloutAction = 'pause' | 'resume' | 'approve' | 'advance' | 'promote' | 'rollback'

/** Somebody asks for something. `arm` is that of an experiment; '': none was named. */
export type RunCall = {
  readonly action: RolloutAction
  readonly by: string
  readonly groups: readonly string[]
  readonly why: string
  readonly arm: string
}

export type RunParts = {
  readonly clock: Clock
  readonly log: Log
  readonly fleet: ModelFleet
  readonly pins: PinBook
  readonly openTraffic: OpenTraffic
  /** Resolves when a restart would know of it. */
  save(record: ReleaseRecord): Promise<void>
  audit(record: ReleaseRecord, action: RolloutAudit, by: string, why: string): void
  readonly outbox: Outbox
  /** Null: this server is alone. */
  readonly shared: SharedRollouts | null
  /** Somebody may want to see the new state. */
  changed(run: RolloutRun): void
}

export type RunSettings = { readonly repository: string; readonly sharedGeneration: number }

/** Sums are kept this often while nothing else changes. */
const keepEvidenceNs = 5e9
const measureMemoryNs = 10e9

export class RolloutRun {
  readonly kind = 'rollout'
  readonly #parts: RunParts
  readonly #settings: RunSettings
  #record: RolloutRecord
  #traffic: LiveTraffic | null = null
  /** The copy of stable that the candidate is compared with. */
  #baseline: ServedVersion | null = null
  #isCandidateWanted = false
  #isStableWanted: boolean
  #judgement: Judgement
  #restarts = 0
  readonly #sharing: StateSharing
  #outcomes: readonly ArmOutcomes[] = []
  readonly #queriedNs = new Map<string, number>()
  /** By metric: why the last query had no answer. */
  readonly queryProblems = new Map<string, string>()
  #keptNs = 0
  #memoryNs = 0

  constructor(parts: RunParts, settings: RunSettings, record: RolloutRecord) {
    this.#parts = parts
    this.#settings = settings
    this.#record = record
    this.#judgement = judge(record, record.evidence)
    this.#sharing = new StateSharing(parts, this, settings.sharedGeneration)
    this.#isStableWanted =
      isLive(record.state) || (record.state.phase === 'SUCCEEDED' && !record.state.isStableReleased)
  }

  get record(): RolloutRecord {
    return this.#record
  }

  get judgement(): Judgement {
    return this.#judgement
  }

  get traffic(): LiveTraffic | null {
    return this.#traffic
  }

  get sharedGeneration(): number {
    return this.#sharing.generation
  }

  get isLive(): boolean {
    return isLive(this.#record.state)
  }

  /** Ticks are of no use any more. */
  get isOver(): boolean {
    const { phase, isStableReleased, owesPin } = this.#record.state
    if (owesPin || phase === 'ROLLING_BACK') return false
    return !this.isLive && !(phase === 'SUCCEEDED' && !isStableReleased)
  }

  get stable(): ArmVersion {
    return this.#record.arms[0] as ArmVersion
  }

  get candidate(): ArmVersion {
    return this.#record.arms[1] as ArmVersion
  }

  /** The versions of the model that must be in memory, whatever the version policy says. */
  neededVersions(model: string): string[] {
    return [
      ...(this.#isStableWanted ? [this.stable] : []),
      ...(this.#isCandidateWanted ? [this.candidate] : []),
    ].flatMap((arm) => (arm.model === model ? [arm.version] : []))
  }

  /** Versions of the model that are new no more. */
  broughtVersions(model: string): string[] {
    return model === this.#record.model && model === this.candidate.model ? [this.candidate.version] : []
  }

  restored(): void {
    this.dispatch({ type: 'restored' })
  }

  /** Why the call cannot be done in this state; null where it was done, or was so already. */
  act({ action, by, groups, why, arm }: RunCall): string | null {
    if (arm !== '') throw ServerError.withoutStack('INVALID_ARG', `'arm' is for experiments, and '${this.#record.name}' is a rollout`) // prettier-ignore
    return this.dispatch(action === 'approve' ? { type: action, by, groups, why } : { type: action, by, why })
  }

  /** The effects of `createRollout`. */
  begin({ effects }: Transition): void {
    this.#keep()
    this.#carryOut(effects)
    this.#parts.changed(this)
  }

  /** Why the event cannot be done in this state; null where it was done, or was so already. */
  dispatch(event: RolloutEvent): string | null {
    const before = this.#record.state
    const { state, effects, refusal } = reduceRollout(this.#record.plan, before, event, this.#now())
    this.#record = { ...this.#record, state }
    // The weight goes first. Nothing is awaited before it.
    this.#carryOut(effects)
    if (state.generation !== before.generation) {
      this.#keep()
      this.#sharing.push()
      this.#parts.changed(this)
    }
    return refusal
  }

  tick(): void {
    const { state } = this.#record
    this.#traffic?.tick()
    this.#countRestarts()
    this.#measureMemory()
    this.#askPrometheus()
    if (this.#traffic !== null) this.#record = { ...this.#record, evidence: this.#traffic.sums() }
    const requests = this.#traffic?.candidateRequests ?? 0
    const compared = this.#traffic?.shadowFigures()?.compared ?? 0
    const { shared } = this.#parts
    shared?.report(this.#record.name, { sums: this.#record.evidence, requests, compared })
    const others = shared?.others(this.#record.name) ?? []
    const judgement = this.#judge(others)
    const served = this.#parts.fleet.version(this.candidate.model, this.candidate.version)
    this.dispatch({
      type: 'tick',
      facts: {
        judgement,
        candidateRequests: others.reduce((sum, one) => sum + one.requests, requests),
        compared: others.reduce((sum, one) => sum + one.compared, compared),
        isCandidateReady: served?.isReady ?? false,
        isLeader: shared === null || shared.isLeader(this.#record.name),
      },
    })
    if (isLive(state) && this.#parts.clock.nowNs() - this.#keptNs >= keepEvidenceNs) this.#keep()
  }

  /** All sums are judged by everybody with one half of the budget, those of this server alone with its part of the other half. */
  #judge(others: readonly ServerEvidence[]): Judgement {
    const { evidence, plan, name } = this.#record
    if (this.#parts.shared === null) return (this.#judgement = judge(this.#record, evidence))
    const servers = Math.max(2, this.#parts.shared.serverCount(name))
    const merged = others.reduce((sums, one) => addEvidence(sums, one.sums), evidence)
    this.#judgement = judgeRollout(plan.judge.metrics, merged, plan.judge.alpha, { servers, sums: 'merged' })
    const own = judgeRollout(plan.judge.metrics, evidence, plan.judge.alpha, { servers, sums: 'own' })
    return { ...this.#judgement, worse: this.#judgement.worse ?? own.worse }
  }

  /** Takes over what another server has written, and does what that means for this server. */
  adopt(record: ReleaseRecord): void {
    if (!isRolloutRecord(record)) return
    const before = this.#record.state
    this.#sharing.generation = record.state.generation
    // Another server went on before it could hear of the rollback: the rollback is written once more.
    if (isWithdrawn(before.phase) && !isWithdrawn(record.state.phase)) {
      this.#sharing.push()
      return
    }
    const { nowNs } = this.#now()
    const { isLoading, notReadyNs, restartAges } = before
    const state = { ...record.state, seenNs: nowNs, isLoading, notReadyNs, restartAges }
    this.#record = { ...this.#record, state, notes: record.notes, report: record.report ?? this.#record.report }
    this.#carryOut(adoptionEffects(before, state))
    this.#keep()
    this.#parts.changed(this)
  }

  storeLost(): void {
    this.dispatch({ type: 'store-lost' })
  }

  storeBack(): void {
    this.dispatch({ type: 'store-back' })
    this.#sharing.push()
  }

  setGeneration(generation: number): void {
    this.#record = { ...this.#record, state: { ...this.#record.state, generation } }
  }

  note(note: ReleaseNote): Promise<void> {
    this.#record = { ...this.#record, notes: [...this.#record.notes, note] }
    this.#parts.audit(this.#record, 'note', note.by, note.text)
    this.#parts.changed(this)
    return this.#parts.save(this.#record)
  }

  /** Ended requests of each arm, as long as the server runs. */
  outcomes(): readonly ArmOutcomes[] {
    return this.#traffic?.outcomes() ?? this.#outcomes
  }

  /** Figures are those of the end, once there is an end; the history goes on. */
  report(): RolloutReport {
    const now = this.#reportNow()
    const frozen = this.#record.report as RolloutReport | null
    return frozen === null ? now : { ...now, metrics: frozen.metrics, shadow_copies: frozen.shadow_copies }
  }

  reportText(): string {
    return reportMarkdown(this.report())
  }

  /** At exit: what was counted is kept, and nothing is changed. */
  async close(): Promise<void> {
    if (this.isLive) await this.#parts.save(this.#record).catch(() => undefined)
  }

  #reportNow(): RolloutReport {
    const { plan, state, notes } = this.#record
    const versions = { candidate: this.candidate.version, stable: this.stable.version }
    const shadow = this.#traffic?.shadowFigures() ?? null
    return reportRollout({ plan, state, judgement: this.#judgement, shadow, versions, notes: notes.map(noteText) })
  }

  #now(): Moment {
    const { clock } = this.#parts
    return { nowNs: clock.nowNs(), wallMs: clock.wallMs() }
  }

  #keep(): void {
    this.#keptNs = this.#parts.clock.nowNs()
    this.#parts.save(this.#record).catch((reason: unknown) => {
      this.#parts.log.error(`rollout '${this.#record.name}' cannot be kept: ${messageOf(reason)}`)
    })
  }

  #carryOut(effects: readonly RolloutEffect[]): void {
    for (const effect of effects) this.#do(effect)
  }

  #do(effect: RolloutEffect): void {
    switch (effect.do) {
      case 'set-weight':
        this.#setWeight(effect.weight)
        return
      case 'set-shadow':
        this.#traffic?.setShadow(this.#shadowStep(effect.share))
        return
      case 'load-candidate':
        void this.#load()
        return
      case 'write-pin':
        void this.#writePin(effect.to)
        return
      case 'drain-candidate':
        void this.#drain()
        return
      case 'hold-candidate':
        this.#inBackground('hold the candidate', this.#hold())
        return
      case 'unload-candidate':
        this.#inBackground('unload the candidate', this.#unload())
        return
      case 'release-stable':
        this.#isStableWanted = false
        this.#inBackground('let stable go', this.#renew())
        return
      case 'freeze-report':
        this.#freeze()
        return
      case 'ask-webhook':
        void this.#askWebhook(effect.url, effect.timeoutNs)
        return
      case 'notify':
        this.#parts.outbox.notify(this.#record, effect.event, effect.why)
        return
      case 'audit':
      default:
        this.#parts.audit(this.#record, effect.action, effect.by, effect.why)
    }
  }

  #setWeight(weight: number): void {
    if (this.#traffic !== null) this.#traffic.setWeight(weight)
    // After the promotion there is no router any more: the standard version goes back.
    else if (weight === 0 && this.#record.state.phase === 'ROLLING_BACK') {
      this.#parts.pins.serve(this.#record.model, this.stable)
    }
  }

  #shadowStep(share: number): ShadowStep | null {
    const { plan, state } = this.#record
    const step = plan.steps[state.step]
    return share > 0 && step?.kind === 'shadow' ? step : null
  }

  async #load(): Promise<void> {
    const { fleet } = this.#parts
    const { plan } = this.#record
    this.#isCandidateWanted = true
    this.#isStableWanted = true
    try {
      await this.#renew()
      const stable = fleet.version(this.stable.model, this.stable.version)
      const candidate = fleet.version(this.candidate.model, this.candidate.version)
      if (stable === null) throw new Error(`version ${this.stable.version}, which is stable, does not serve`)
      if (candidate === null) throw new Error(`version ${this.candidate.version} of model '${this.candidate.model}' does not serve`) // prettier-ignore
      const difference = signatureDifference(stable.signature, candidate.signature)
      if (difference !== '' && !plan.isSignatureChangeAllowed) {
        throw new Error(`version ${candidate.version} of model '${candidate.name}' has other inputs or outputs than version ${stable.version} of model '${stable.name}': ${difference}`) // prettier-ignore
      }
      await this.#loadBaseline()
      // Somebody may have ended the rollout in the meantime.
      if (!this.isLive) {
        this.#unloadBaseline()
        return
      }
      this.#restarts = fleet.restarts(this.candidate.model, this.candidate.version)
      this.#traffic?.close()
      this.#traffic = this.#parts.openTraffic(this.#record, this.#baseline)
      this.dispatch({ type: 'candidate-ready' })
    } catch (reason) {
      this.#isCandidateWanted = false
      this.#unloadBaseline()
      if (this.isLive) this.dispatch({ type: 'load-failed', why: messageOf(reason).trimEnd() })
    }
  }

  /** A model that somebody has unloaded stays unloaded. */
  async #renew(): Promise<void> {
    const { fleet } = this.#parts
    const { model, arms } = this.#record
    for (const name of new Set([model, ...arms.map((arm) => arm.model)])) {
      if (name === model || fleet.standardOf(name) !== '') await fleet.renew(name)
    }
  }

  async #loadBaseline(): Promise<void> {
    if (!this.#record.plan.hasBaseline || this.#baseline !== null) return
    this.#baseline = await this.#parts.fleet.loadCopy(this.stable.model, this.stable.version)
  }

  #unloadBaseline(): void {
    const copy = this.#baseline
    this.#baseline = null
    if (copy !== null) this.#inBackground('unload the baseline', this.#parts.fleet.unloadCopy(copy))
  }

  async #writePin(to: 'candidate' | 'stable'): Promise<void> {
    const { pins, fleet } = this.#parts
    const { model } = this.#record
    const arm = to === 'candidate' ? this.candidate : this.stable
    try {
      const { versions } = await fleet.poll(model)
      const newest = to === 'candidate' && versions.length > 0 ? { newest: versions.at(-1) as string } : {}
      await pins.change(model, this.#settings.repository, { ...pinTo(model, arm), ...newest })
      this.dispatch({ type: 'pin-written' })
    } catch (reason) {
      this.dispatch({ type: 'pin-failed', why: messageOf(reason) })
    }
  }

  async #hold(): Promise<void> {
    const { version, hash } = this.candidate
    const { model, name } = this.#record
    const { pins } = this.#parts
    const ofOther = this.candidate.model === model ? {} : { model: this.candidate.model }
    await pins.hold(model, this.#settings.repository, { version, hash, rollout: name, ...ofOther })
    await pins.change(model, this.#settings.repository, pinTo(model, this.stable))
  }

  async #drain(): Promise<void> {
    await this.#traffic?.withdraw()
    this.dispatch({ type: 'drained' })
  }

  #closeTraffic(): void {
    this.#outcomes = this.outcomes()
    this.#traffic?.close()
    this.#traffic = null
    this.#unloadBaseline()
  }

  /** Until the candidate retires, requests of sequences find it through the router. */
  async #unload(): Promise<void> {
    const { plan, state } = this.#record
    if (state.phase === 'ROLLED_BACK' && plan.isCandidateKept) {
      this.#isStableWanted = false
      this.#closeTraffic()
      return
    }
    const traffic = this.#traffic
    this.#outcomes = this.outcomes()
    this.#traffic = null
    this.#isCandidateWanted = false
    this.#isStableWanted = false
    try {
      await this.#renew()
    } finally {
      traffic?.close()
      this.#unloadBaseline()
    }
  }

  #freeze(): void {
    this.#record = { ...this.#record, report: this.#reportNow() }
    if (this.#record.state.phase !== 'SUCCEEDED') return
    // The candidate is the standard version now: requests need no router to find it.
    this.#closeTraffic()
  }

  async #askWebhook(url: string, timeoutNs: number): Promise<void> {
    const answer = await this.#parts.outbox.askWebhook(this.#record, url, timeoutNs)
    this.dispatch({ type: 'webhook-answer', ...answer })
  }

  #countRestarts(): void {
    if (this.#traffic === null) return
    const now = this.#parts.fleet.restarts(this.candidate.model, this.candidate.version)
    for (; this.#restarts < now && this.isLive; this.#restarts++) this.dispatch({ type: 'worker-restarted' })
    this.#restarts = now
  }

  #measureMemory(): void {
    const { clock, fleet } = this.#parts
    if (this.#traffic === null || clock.nowNs() - this.#memoryNs < measureMemoryNs) return
    if (!this.#record.plan.judge.metrics.some(({ test }) => test === 'memory')) return
    this.#memoryNs = clock.nowNs()
    const arms = [this.candidate, this.stable].map(({ model, version }) => fleet.memoryBytes(model, version))
    void Promise.all(arms).then(([candidate, stable]) => {
      if (candidate != null && stable != null) this.#traffic?.setMemory(candidate, stable)
    })
  }

  /** A query without an answer is no check: a Prometheus that is away neither passes nor fails a version. */
  #askPrometheus(): void {
    const { clock, outbox, log } = this.#parts
    if (this.#traffic === null || !outbox.hasPrometheus) return
    const names = { model: this.#record.model, stable: this.stable.version, candidate: this.candidate.version }
    for (const rule of this.#record.plan.judge.metrics) {
      if (rule.test !== 'promql' || clock.nowNs() < (this.#queriedNs.get(rule.name) ?? 0) + rule.intervalNs) continue
      this.#queriedNs.set(rule.name, clock.nowNs())
      outbox.query(rule, names).then(
        (value) => {
          if (value !== null) this.#traffic?.addQuery(rule, value)
          this.queryProblems.delete(rule.name)
        },
        (reason: unknown) => {
          const problem = `Prometheus could not be asked: ${messageOf(reason)}`
          if (!this.queryProblems.has(rule.name))
            log.warning(`rollout '${this.#record.name}', metric '${rule.name}': ${problem}`)
          this.queryProblems.set(rule.name, problem)
        },
      )
    }
  }

  #inBackground(what: string, work: Promise<void>): void {
    work.catch((reason: unknown) => {
      this.#parts.log.error(`rollout '${this.#record.name}' could not ${what}: ${messageOf(reason)}`)
    })
  }
}

const judge = ({ plan }: RolloutRecord, evidence: EvidenceSums): Judgement =>
  judgeRollout(plan.judge.metrics, evidence, plan.judge.alpha)
