// The requests of a rollout, for the control of rollouts: the weights, the sums, the withdrawal.

import type { AccessLog } from '../base/access-log.ts'
import type { Clock } from '../base/clock.ts'
import type { RequestOrigin } from '../model/request-origin.ts'
import type { ServedVersion } from '../engine/serving/served-version.ts'
import { fullWeight } from '../rollouts/assignment.ts'
import type { FeedbackDesk } from '../rollouts/feedback-desk.ts'
import { openLiveRollout } from '../rollouts/live-rollout.ts'
import { ExecutionCount } from './execution-count.ts'
import type { LiveTraffic, OpenTraffic } from './live-traffic.ts'
import type { ModelFleet } from './model-fleet.ts'
import { baselineArmName, type RolloutRecord } from './release-record.ts'

export type TrafficParts = {
  readonly fleet: ModelFleet
  readonly clock: Clock
  readonly accessLog?: AccessLog
  readonly countryOf: (origin: RequestOrigin) => string
  /** Where labels and scores of answers come in. */
  readonly desk: FeedbackDesk
}

/** How often a withdrawn candidate is asked whether its last request has ended. */
const drainLookNs = 20e6
const candidateArm = 1

export const releaseTraffic =
  (parts: TrafficParts): OpenTraffic =>
  (record, baseline) =>
    openTraffic(parts, record, baseline)

function openTraffic(
  parts: TrafficParts,
  { name, model, plan, arms, evidence }: RolloutRecord,
  baseline: ServedVersion | null,
): LiveTraffic {
  const { clock, fleet } = parts
  const copies = new Map(baseline === null ? [] : [[baselineArmName, baseline]])
  const live = openLiveRollout(
    { ...parts, engine: fleet.routing },
    {
      name,
      model,
      plan,
      arms: arms.map(({ arm, model: ofModel, version }) => ({ name: arm, model: ofModel, version })),
      copies,
      known: evidence,
      seed: Math.floor(Math.random() * 2 ** 32),
    },
  )
  live.setWeights([fullWeight, 0])
  const executions = live.arms.map(({ settings: arm }) => {
    const served = (): ServedVersion | null => copies.get(arm.name) ?? fleet.version(arm.model, arm.version)
    return new ExecutionCount(served)
  })
  const countExecutions = (): void => {
    const counted = executions.map((arm) => arm.take())
    // With a baseline the baseline is the control.
    const [candidate, stable] = [counted[candidateArm], counted[counted.length > 2 ? 2 : 0]]
    if (candidate !== undefined) live.evidence.addExecutions('candidate', candidate.executions, candidate.deaths)
    if (stable !== undefined) live.evidence.addExecutions('stable', stable.executions, stable.deaths)
  }
  let weight = 0
  return {
    setWeight: (share) => {
      weight = share
      live.setWeights([fullWeight - share, share])
    },
    setShadow: (step) => live.setShadow(step),
    get candidateRequests() {
      return live.arms[candidateArm]?.judged ?? 0
    },
    sums: () => live.evidence.sums(),
    tick: () => {
      countExecutions()
      live.evidence.tick(clock.nowNs(), weight < fullWeight)
    },
    shadowFigures: () => (plan.steps.some(({ kind }) => kind === 'shadow') ? live.shadow.figures() : null),
    setMemory: (candidateBytes, stableBytes) => live.evidence.setMemory(candidateBytes, stableBytes),
    addQuery: (rule, value) => live.evidence.addQuery(rule, value),
    withdraw: async () => {
      live.withdraw()
      while (live.inFlight(candidateArm) > 0) {
        await new Promise<void>((resolve) => clock.after(drainLookNs, resolve))
      }
    },
    outcomes: () => live.arms.map(({ settings, ended }) => ({ ...settings, ended })),
    close: () => live.close(),
  }
}
