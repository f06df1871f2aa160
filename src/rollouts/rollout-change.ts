// One change of a rollout under construction: the next state, and the effects in their order.

import { fullWeight } from './assignment.ts'
import type { NotifyEvent, RolloutPlan, Step } from './rollout-plan.ts'
import type { HistoryEntry, Moment, PauseReason, RolloutAudit, RolloutEffect, RolloutPhase, RolloutState, Transition } from './rollout-state.ts' // prettier-ignore

export const mostHistory = 200

export class RolloutChange {
  readonly plan: RolloutPlan
  readonly #now: Moment
  readonly #effects: RolloutEffect[] = []
  #state: RolloutState
  #isChanged = false

  constructor(plan: RolloutPlan, state: RolloutState, now: Moment) {
    this.plan = plan
    this.#now = now
    this.#state = state
  }

  get state(): RolloutState {
    return this.#state
  }

  get step(): Step | undefined {
    return this.plan.steps[this.#state.step]
  }

  set(part: Partial<RolloutState>): void {
    this.#state = { ...this.#state, ...part }
    this.#isChanged = true
  }

  /** For clocks and counters, which are no change that other servers must hear of. */
  count(part: Partial<RolloutState>): void {
    this.#state = { ...this.#state, ...part }
  }

  effect(effect: RolloutEffect): void {
    this.#effects.push(effect)
  }

  audit(action: RolloutAudit, by: string, why: string): void {
    this.effect({ do: 'audit', action, by, why })
  }

  notify(event: NotifyEvent, why: string): void {
    this.effect({ do: 'notify', event, why })
  }

  /** To another phase, with a line in the history. */
  enter(phase: RolloutPhase, by: string, why: string, pauseReason: PauseReason | null = null): void {
    const entry: HistoryEntry = { wallMs: this.#now.wallMs, phase, step: this.#state.step, by, why }
    const history = [...this.#state.history, entry].slice(-mostHistory)
    this.set({ phase, why, pauseReason, phaseNs: 0, history })
  }

  setWeight(weight: number): void {
    if (this.#state.weight === weight) return
    this.set({ weight })
    this.effect({ do: 'set-weight', weight })
  }

  setShadow(shadow: number): void {
    if (this.#state.shadow === shadow) return
    this.set({ shadow })
    this.effect({ do: 'set-shadow', share: shadow })
  }

  pause(reason: PauseReason, by: string, why: string): void {
    this.enter('PAUSED', by, why, reason)
    this.audit('pause', by, why)
    this.notify('paused', why)
  }

  /** To the step with this number, or to the promotion after the last one. */
  enterStep(index: number, by: string, why: string): void {
    const step = this.plan.steps[index]
    this.setShadow(step?.kind === 'shadow' ? step.share : 0)
    if (step === undefined) {
      this.promote(by, why)
      return
    }
    this.set({ step: index, stepNs: 0, timeoutFromNs: 0 })
    // The counts of the candidate are known at ticks; the first tick of the step takes them as the beginning.
    this.set({ requestsBefore: -1, comparedBefore: -1 })
    if (step.kind === 'weight') this.setWeight(step.weight)
    if (index > 0) this.audit('step', by, `step ${index + 1} of ${this.plan.steps.length}: ${why}`)
    if (step.kind === 'pause') this.pause('step', by, pauseText(step))
    else if (step.kind === 'approval') this.pause('approval', by, approvalText(step))
    else this.enter('RUNNING', by, why)
    if (step.kind === 'webhook') this.effect({ do: 'ask-webhook', url: step.url, timeoutNs: step.timeoutNs })
    if (index > 0) this.notify('step', why)
  }

  promote(by: string, why: string): void {
    this.setShadow(0)
    this.setWeight(fullWeight)
    this.enter('PROMOTING', by, why)
    this.effect({ do: 'write-pin', to: 'candidate' })
  }

  rollBack(by: string, why: string): void {
    const isPinned = this.#state.phase === 'PROMOTING' || this.#state.phase === 'SUCCEEDED'
    // The weight goes first: the next request sees it.
    this.setWeight(0)
    this.setShadow(0)
    this.enter('ROLLING_BACK', by, why)
    if (isPinned) this.effect({ do: 'write-pin', to: 'stable' })
    this.effect({ do: 'hold-candidate' })
    this.effect({ do: 'drain-candidate' })
    this.effect({ do: 'freeze-report' })
    this.audit('rollback', by, why)
    this.notify('rolled_back', why)
  }

  /** For the phases that end without the candidate. */
  drop(phase: 'FAILED' | 'CANCELLED', why: string): void {
    this.setWeight(0)
    this.setShadow(0)
    this.enter(phase, '', why)
    this.effect({ do: 'unload-candidate' })
    this.audit(phase === 'FAILED' ? 'fail' : 'cancel', '', why)
    this.notify(phase === 'FAILED' ? 'failed' : 'cancelled', why)
  }

  done(refusal: string | null = null): Transition {
    const generation = this.#state.generation + (this.#isChanged ? 1 : 0)
    return { state: { ...this.#state, generation }, effects: this.#effects, refusal }
  }
}

const pauseText = (step: Extract<Step, { readonly kind: 'pause' }>): string =>
  step.forNs === null
    ? 'a step asks for a pause until somebody resumes'
    : `a step asks for a pause of ${step.forNs / 1e9} s`

const approvalText = ({ groups }: Extract<Step, { readonly kind: 'approval' }>): string =>
  groups.length === 0 ? 'a step asks for an approval' : `a step asks for an approval by ${groups.join(' or ')}`
