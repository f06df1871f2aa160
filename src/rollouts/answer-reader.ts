// What a rollout reads in answers: predictions that feedback is compared with, and classes for drift.

import { randomUUID } from 'node:crypto'
import type { InferenceResponse } from '../model/inference-response.ts'
import type { DriftRule, MetricRule } from './judge/metric-rule.ts'
import { driftClassOf, predictionOf } from './prediction.ts'
import type { ExperimentPlan, FeedbackPolicy, RolloutPlan } from './rollout-plan.ts'

/** The header with the id that feedback names. */
export const requestIdHeader = 'galatea-request-id'

export class AnswerReader {
  /** Ids of answers are remembered, and answers carry them. */
  readonly wantsIds: boolean
  readonly #policy: FeedbackPolicy | null
  readonly #drifts: readonly DriftRule[]

  constructor(plan: RolloutPlan | ExperimentPlan) {
    const rules = plan.kind === 'rollout' ? plan.judge.metrics : []
    this.#policy = plan.feedback
    this.#drifts = rules.filter((rule) => rule.test === 'drift')
    this.wantsIds = plan.feedback !== null || plan.kind === 'experiment' || rules.some(isOfFeedback)
  }

  /** False: nothing in an answer matters. */
  get isReading(): boolean {
    return this.wantsIds || this.#drifts.length > 0
  }

  prediction({ outputs }: InferenceResponse): string | null {
    const policy = this.#policy
    const output = policy === null ? undefined : outputs.find(({ name }) => name === policy.output)
    return policy === null || output === undefined ? null : predictionOf(output, policy)
  }

  *classes({ outputs }: InferenceResponse): IterableIterator<readonly [metric: string, index: number]> {
    for (const rule of this.#drifts) {
      const output = outputs.find(({ name }) => name === rule.output)
      const index = output === undefined ? -1 : driftClassOf(output, rule)
      if (index !== -1) yield [rule.name, index]
    }
  }
}

const isOfFeedback = (rule: MetricRule): boolean =>
  (rule.test === 'counts' && rule.source === 'accuracy') || (rule.test === 'sign' && rule.source.startsWith('score:'))

/** The client's own id where it can stand in a header, else a new one. */
export const feedbackIdOf = (id: string): string => (/^[!-~]{1,256}$/.test(id) ? id : randomUUID())
