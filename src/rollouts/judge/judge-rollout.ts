// All metrics of a rollout: one verdict each, and what the worst of them asks for.

import { judgeMetric, type MetricVerdict } from './judge-metric.ts'
import { alphaOfScope, alphaPerMetric, type MetricRule, type OnWorse } from './metric-rule.ts'
import { noMetricSums, withWindows, type EvidenceSums } from './metric-sums.ts'

export type Judgement = {
  readonly verdicts: readonly MetricVerdict[]
  /** The strongest act that a worse metric asks for, and that metric; null: none is worse. Dry runs ask for nothing. */
  readonly worse: { readonly act: OnWorse; readonly metric: string; readonly why: string } | null
  readonly areAllFine: boolean
}

type JudgeScope = { readonly servers: number; readonly sums: 'merged' | 'own' }

const oneServer: JudgeScope = { servers: 1, sums: 'merged' }
const strength: Readonly<Record<OnWorse, number>> = { note: 0, pause: 1, rollback: 2 }

/** A pure function of sums. `alpha` is the budget of the whole rollout. */
export function judgeRollout(
  rules: readonly MetricRule[],
  sums: EvidenceSums,
  alpha: number,
  scope: JudgeScope = oneServer,
): Judgement {
  const each = alphaOfScope(alphaPerMetric(rules, alpha), scope.servers, scope.sums)
  const verdicts = rules.map((rule) => judgeMetric(rule, withWindows(sums[rule.name] ?? noMetricSums(rule)), each))
  let worse: Judgement['worse'] = null
  let areAllFine = true
  rules.forEach((rule, i) => {
    const verdict = verdicts[i] as MetricVerdict
    if (rule.isDryRun) return
    if (verdict.verdict !== 'fine') areAllFine = false
    if (verdict.verdict !== 'worse') return
    if (worse === null || strength[rule.onWorse] > strength[worse.act]) {
      worse = { act: rule.onWorse, metric: rule.name, why: verdict.why }
    }
  })
  return { verdicts, worse, areAllFine }
}
