import type { ServedVersion } from '../engine/serving/served-version.ts'
import type { PromqlRule } from '../rollouts/judge/metric-rule.ts'
import type { EvidenceSums } from '../rollouts/judge/metric-sums.ts'
import type { Step } from '../rollouts/rollout-plan.ts'
import type { ShadowFigures } from '../rollouts/shadow-record.ts'
import type { RolloutRecord } from './release-record.ts'

export type ShadowStep = Extract<Step, { readonly kind: 'shadow' }>

export type ArmOutcomes = {
  readonly name: string
  readonly version: string
  readonly ended: Readonly<Record<string, number>>
}

/** The requests of a model while a rollout lives: which arm they go to, and what became of them. */
export interface LiveTraffic {
  /** The candidate's share in hundredths of a per cent. One assignment: the next request sees it. */
  setWeight(weight: number): void
  /** The step that says which requests are copied to the candidate; null: none are. */
  setShadow(step: ShadowStep | null): void
  /** Judged requests of the candidate. */
  readonly candidateRequests: number
  sums(): EvidenceSums
  /** Once a second. */
  tick(): void
  shadowFigures(): ShadowFigures | null
  setMemory(candidateBytes: number, stableBytes: number): void
  addQuery(rule: PromqlRule, value: number): void
  /** All requests go to stable, those that wait for the candidate too. Resolves when the candidate has none left. */
  withdraw(): Promise<void>
  /** Ended requests of each arm by outcome. */
  outcomes(): readonly ArmOutcomes[]
  /** Requests are routed as without a rollout. */
  close(): void
}

/** Both versions serve when this is called. `baseline` is the copy of stable that the candidate is compared with; null: there is none. */
export type OpenTraffic = (record: RolloutRecord, baseline: ServedVersion | null) => LiveTraffic
