// The states of a rollout and the moves between them: a pure function of plan, state, event and time.

import { decideStep } from './judge/decide-step.ts'
import { RolloutChange } from './rollout-change.ts'
import type { RolloutPlan } from './rollout-plan.ts'
import { isLive, type Moment, type RolloutEvent, type RolloutState, type TickFacts, type Transition } from './rollout-state.ts' // prettier-ignore

/** A candidate that is not ready for this long is withdrawn. */
const notReadyLimitNs = 10e9
const mostRestarts = 3
const restartWindowNs = 60e9
const pinRetryNs = 10e9

type EventOf<Type extends RolloutEvent['type']> = Extract<RolloutEvent, { readonly type: Type }>
type Handlers = {
  readonly [Type in RolloutEvent['type']]: (change: RolloutChange, event: EventOf<Type>) => string | null | void
}

export function reduceRollout(plan: RolloutPlan, state: RolloutState, event: RolloutEvent, now: Moment): Transition {
  const change = new RolloutChange(plan, state, now)
  passTime(change, event, now)
  const handle = handlers[event.type] as (change: RolloutChange, event: RolloutEvent) => string | null | void
  return change.done(handle(change, event) ?? null)
}

/** After a restart the time counts from now on: nothing was served in between. */
function passTime(change: RolloutChange, event: RolloutEvent, { nowNs }: Moment): void {
  const { state } = change
  const passedNs = event.type === 'restored' ? 0 : Math.max(0, nowNs - state.seenNs)
  change.count({
    seenNs: nowNs,
    phaseNs: state.phaseNs + passedNs,
    stepNs: state.stepNs + (state.phase === 'RUNNING' && !state.isLoading ? passedNs : 0),
    restartAges: state.restartAges.map((age) => age + passedNs).filter((age) => age < restartWindowNs),
    notReadyNs: state.notReadyNs > 0 ? state.notReadyNs + passedNs : 0,
  })
}

const next = (change: RolloutChange, by: string, why: string): void => change.enterStep(change.state.step + 1, by, why)

const refused = (change: RolloutChange, what: string): string =>
  `rollout '${change.state.name}' is ${change.state.phase}${pauseText(change)}: it cannot ${what}`

const pauseText = ({ state }: RolloutChange): string => (state.pauseReason === null ? '' : ` (${state.pauseReason})`)

const handlers: Handlers = {
  'candidate-ready': (change) => {
    change.count({ isLoading: false })
    if (change.state.phase === 'PENDING') {
      change.audit('start', '', 'the candidate is ready')
      change.notify('started', 'the candidate is ready')
      change.enterStep(0, '', 'the candidate is ready')
    } else if (isLive(change.state)) goOn(change)
  },
  'load-failed': (change, { why }) => {
    if (change.state.phase === 'PENDING') change.drop('FAILED', why)
    // After a restart: the candidate served before.
    else if (isLive(change.state)) change.rollBack('', `the candidate could not be loaded again: ${why}`)
  },
  tick: (change, { facts }) => tick(change, facts),
  'worker-restarted': (change) => {
    if (!isServing(change)) return
    change.count({ restartAges: [...change.state.restartAges, 0].slice(-mostRestarts) })
    const count = change.state.restartAges.length
    if (count >= mostRestarts) change.rollBack('', `workers of the candidate were restarted ${count} times in a minute`)
  },
  pause: (change, { by, why }) => {
    if (change.state.phase === 'PAUSED') return null
    if (change.state.phase !== 'RUNNING') return refused(change, 'be paused')
    change.pause('asked', by, why)
    return null
  },
  resume: (change, { by, why }) => resume(change, by, why),
  approve: (change, event) => approve(change, event),
  advance: (change, { by, why }) => {
    const { phase, pauseReason } = change.state
    if (phase !== 'RUNNING' && phase !== 'PAUSED') return refused(change, 'advance')
    if (pauseReason === 'approval') return refused(change, 'advance: the step needs an approval')
    if (pauseReason === 'store') return refused(change, 'advance: the shared store is away')
    next(change, by, why)
    return null
  },
  promote: (change, { by, why }) => {
    const { phase, pauseReason, step } = change.state
    if (phase === 'PROMOTING' || phase === 'SUCCEEDED') return null
    if (phase !== 'RUNNING' && phase !== 'PAUSED') return refused(change, 'be promoted')
    if (pauseReason === 'store') return refused(change, 'be promoted: the shared store is away')
    const open = change.plan.steps.findIndex(({ kind }, i) => kind === 'approval' && i >= step)
    if (open !== -1) return refused(change, `be promoted: step ${open + 1} needs an approval`)
    change.promote(by, why)
    return null
  },
  rollback: (change, { by, why }) => rollBack(change, by, why),
  alert: (change, { name }) => {
    if (isLive(change.state)) change.rollBack('', `the alert '${name}' fires`)
  },
  'webhook-answer': (change, { verdict, why }) => {
    if (change.state.phase !== 'RUNNING' || change.step?.kind !== 'webhook') return
    if (verdict === 'pass') next(change, '', `the webhook passed: ${why}`)
    else if (verdict === 'unsure') change.pause('webhook', '', `the webhook is unsure: ${why}`)
    else webhookFailed(change, `the webhook failed: ${why}`)
  },
  'pin-written': (change) => {
    if (change.state.phase !== 'PROMOTING') return
    change.enter('SUCCEEDED', '', 'the candidate is the default version')
    change.audit('promote', '', 'the candidate is the default version')
    change.notify('succeeded', 'the candidate is the default version')
    change.effect({ do: 'freeze-report' })
  },
  'pin-failed': (change, { why }) => {
    const { phase } = change.state
    if (phase === 'PROMOTING') change.enter('PROMOTING', '', `the pin could not be written: ${why}`)
    else if (phase === 'ROLLING_BACK' || phase === 'ROLLED_BACK') change.count({ owesPin: true })
  },
  drained: (change) => {
    if (change.state.phase === 'ROLLING_BACK') endRollback(change)
  },
  'store-lost': (change) => {
    if (change.state.phase === 'RUNNING') change.pause('store', '', 'the shared store is away')
  },
  'store-back': (change) => {
    if (change.state.pauseReason === 'store') resumeStep(change, '', 'the shared store is back')
  },
  restored: (change) => restore(change),
  superseded: (change, { version }) => {
    const { step, state } = change
    const isBaking = step?.kind === 'weight' && step.isBake
    if (!isLive(state)) return null
    if (isBaking || state.phase === 'PROMOTING') return refused(change, `give way to version ${version}: it bakes`)
    change.drop('CANCELLED', `version ${version} takes its place`)
    return null
  },
}

/** In memory and possibly with requests. */
const isServing = ({ state }: RolloutChange): boolean => isLive(state) && !state.isLoading

/** A server that starts again loads the candidate first; until then all requests go to stable. */
function restore(change: RolloutChange): void {
  if (change.state.phase === 'ROLLING_BACK') endRollback(change)
  if (!isLive(change.state)) return
  change.count({ isLoading: true, notReadyNs: 0, restartAges: [] })
  change.effect({ do: 'load-candidate' })
}

/** The candidate is there again after a restart. */
function goOn(change: RolloutChange): void {
  const { step, state } = change
  change.effect({ do: 'set-weight', weight: state.weight })
  change.effect({ do: 'set-shadow', share: state.shadow })
  if (state.phase === 'PROMOTING') change.effect({ do: 'write-pin', to: 'candidate' })
  if (state.phase === 'RUNNING' && step?.kind === 'webhook') {
    change.effect({ do: 'ask-webhook', url: step.url, timeoutNs: step.timeoutNs })
  }
  // Counts of before the restart may be gone with the server that had them.
  change.count({ requestsBefore: -1, comparedBefore: -1 })
}

function tick(change: RolloutChange, facts: TickFacts): void {
  const { phase, phaseNs } = change.state
  if (change.state.owesPin) {
    change.count({ owesPin: false })
    change.effect({ do: 'write-pin', to: 'stable' })
  }
  if (phase === 'ROLLING_BACK' && phaseNs >= change.plan.drainNs) endRollback(change)
  if (phase === 'PROMOTING' && phaseNs >= pinRetryNs && !change.state.isLoading) {
    change.count({ phaseNs: 0 })
    change.effect({ do: 'write-pin', to: 'candidate' })
  }
  if (phase === 'SUCCEEDED' && !change.state.isStableReleased && phaseNs >= change.plan.keepStableNs) {
    change.set({ isStableReleased: true })
    change.effect({ do: 'release-stable' })
  }
  if (!isServing(change) || isWithdrawn(change, facts)) return
  const { pauseReason } = change.state
  if (!facts.isLeader) return
  if (change.state.phase === 'RUNNING') runStep(change, facts)
  else if (pauseReason === 'step') endPause(change)
  else if (pauseReason === 'approval') checkApprovalTime(change)
}

/** What withdraws a candidate in every phase. A pause or a note for a metric happens once. */
function isWithdrawn(change: RolloutChange, { judgement, isCandidateReady }: TickFacts): boolean {
  const { state } = change
  if (isCandidateReady) change.count({ notReadyNs: 0 })
  else if (state.notReadyNs === 0) change.count({ notReadyNs: 1 })
  else if (state.notReadyNs >= notReadyLimitNs) {
    change.rollBack('', `the candidate has not been ready for ${Math.floor(state.notReadyNs / 1e9)} s`)
    return true
  }
  const { worse } = judgement
  if (worse === null) return false
  const why = `${worse.metric} is worse: ${worse.why}`
  if (worse.act === 'rollback') {
    change.rollBack('', why)
    return true
  }
  if (state.knownWorse.includes(worse.metric)) return false
  if (worse.act === 'pause' && state.phase !== 'RUNNING') return false
  change.set({ knownWorse: [...state.knownWorse, worse.metric] })
  if (worse.act === 'note') {
    change.audit('note', '', why)
    return false
  }
  change.pause('worse', '', why)
  return true
}

function runStep(change: RolloutChange, facts: TickFacts): void {
  const { step, state, plan } = change
  if (step?.kind !== 'weight' && step?.kind !== 'shadow') return
  if (state.requestsBefore === -1) {
    change.count({ requestsBefore: facts.candidateRequests, comparedBefore: facts.compared })
  }
  const samples =
    step.kind === 'weight'
      ? facts.candidateRequests - change.state.requestsBefore
      : facts.compared - change.state.comparedBefore
  const needed = step.kind === 'weight' ? step.minRequests : step.minCompared
  const { stepTimeoutNs, pass, isEarly, onStall } = plan.judge
  const isBake = step.kind === 'weight' && step.isBake
  const decision = decideStep(
    {
      isWorse: false,
      areAllFine: facts.judgement.areAllFine,
      isTimeUp: state.stepNs >= step.forNs,
      hasSamples: samples >= needed,
      isTimedOut: state.stepNs - state.timeoutFromNs >= Math.max(stepTimeoutNs, step.forNs),
    },
    // A bake has no control, and so nothing that could be proven; and its time is what it is for.
    isBake ? { pass: 'not_worse', isEarly: false } : { pass, isEarly },
  )
  if (decision === 'advance')
    next(change, '', facts.judgement.areAllFine ? 'all metrics are fine' : 'no metric is worse')
  else if (decision === 'unsure')
    change.pause('unsure', '', `not all metrics are proven fine after ${hours(stepTimeoutNs)}`)
  else if (decision === 'stall') {
    const why = `the step had ${samples} of ${needed} requests after ${hours(stepTimeoutNs)}`
    if (onStall === 'advance') next(change, '', why)
    else if (onStall === 'rollback') change.rollBack('', why)
    else change.pause('stall', '', why)
  }
}

const hours = (ns: number): string => `${Number((ns / 3600e9).toPrecision(3))} h`

function endPause(change: RolloutChange): void {
  const { step, state } = change
  if (step?.kind === 'pause' && step.forNs !== null && state.phaseNs >= step.forNs)
    next(change, '', 'the pause is over')
}

/** Time alone never approves anything: `on_stall: advance` leaves the rollout paused. */
function checkApprovalTime(change: RolloutChange): void {
  const { step, state, plan } = change
  if (step?.kind !== 'approval' || state.phaseNs < step.timeoutNs || plan.judge.onStall !== 'rollback') return
  change.rollBack('', `nobody approved within ${hours(step.timeoutNs)}`)
}

function resume(change: RolloutChange, by: string, why: string): string | null {
  const { phase, pauseReason } = change.state
  if (phase === 'RUNNING') return null
  if (phase !== 'PAUSED') return refused(change, 'be resumed')
  if (pauseReason === 'approval') return refused(change, 'be resumed: the step needs an approval')
  if (pauseReason === 'store') return refused(change, 'be resumed: the shared store is away')
  // Whoever resumes after a step of pause, or after a webhook that was unsure, has answered it.
  if (pauseReason === 'step' || pauseReason === 'webhook') {
    change.audit('resume', by, why)
    change.notify('resumed', why)
    next(change, by, why)
  } else resumeStep(change, by, why)
  return null
}

function resumeStep(change: RolloutChange, by: string, why: string): void {
  const { pauseReason, stepNs, timeoutFromNs } = change.state
  const hasTimedOut = pauseReason === 'stall' || pauseReason === 'unsure'
  change.set({ timeoutFromNs: hasTimedOut ? stepNs : timeoutFromNs })
  change.enter('RUNNING', by, why)
  change.audit('resume', by, why)
  change.notify('resumed', why)
  // The answer may have come while the rollout was paused.
  if (change.step?.kind === 'webhook') {
    change.effect({ do: 'ask-webhook', url: change.step.url, timeoutNs: change.step.timeoutNs })
  }
}

function approve(change: RolloutChange, { by, groups, why }: EventOf<'approve'>): string | null {
  const { step, state, plan } = change
  if (state.pauseReason !== 'approval' || step?.kind !== 'approval') {
    const wasApproved = isLive(state) && plan.steps.some(({ kind }, i) => kind === 'approval' && i < state.step)
    return wasApproved ? null : refused(change, 'be approved: no step waits for an approval')
  }
  if (step.groups.length > 0 && !step.groups.some((group) => groups.includes(group))) {
    return refused(change, `be approved by '${by}', who is not in the group ${step.groups.join(' or ')}`)
  }
  if (step.isNotAuthor && by === state.author) return refused(change, `be approved by '${by}', who created it`)
  change.audit('approve', by, why)
  next(change, by, why)
  return null
}

function rollBack(change: RolloutChange, by: string, why: string): string | null {
  const { state } = change
  if (state.phase === 'ROLLING_BACK' || state.phase === 'ROLLED_BACK') return null
  const isKept = state.phase === 'SUCCEEDED' && !state.isStableReleased
  if (!isLive(state) && !isKept) {
    const fix = state.phase === 'SUCCEEDED' ? ': stable was let go; start a rollout of the old version' : ''
    return `${refused(change, 'be rolled back')}${fix}`
  }
  change.rollBack(by, why)
  return null
}

function endRollback(change: RolloutChange): void {
  change.enter('ROLLED_BACK', '', change.state.why)
  change.effect({ do: 'unload-candidate' })
}

function webhookFailed(change: RolloutChange, why: string): void {
  const { onWorse } = change.plan.judge
  if (onWorse === 'rollback') change.rollBack('', why)
  else if (onWorse === 'pause') change.pause('webhook', '', why)
  else {
    change.audit('note', '', why)
    next(change, '', why)
  }
}
