import { matchRule, type RouteFacts } from '../../rollouts/traffic-rule.ts'
import type { RoutePlan, TokenRange } from './route-plan.ts'

/** What rules may ask about a request beside its facts. */
export type RouteNumbers = {
  /** Tokens that the client wants at most; null: it did not say. */
  readonly maxTokens: number | null
  /** Null: nobody has counted yet. */
  readonly promptTokens: number | null
  /** 0 to 9999, always the same for one request. */
  readonly bucket: () => number
}

const isWithin = ({ above, below }: TokenRange, count: number): boolean => count > above && count < below

/** The model by the first rule that fits, else the first model. Null: a rule must know the tokens of the prompt first. */
export function chooseRoute({ models, rules }: RoutePlan, facts: RouteFacts, numbers: RouteNumbers): string | null {
  for (const { when, promptTokens, maxTokens, weight, to } of rules) {
    if (matchRule([{ when, to, weight: null }], facts) === null) continue
    if (maxTokens !== null && (numbers.maxTokens === null || !isWithin(maxTokens, numbers.maxTokens))) continue
    if (numbers.bucket() >= weight) continue
    if (promptTokens === null) return to
    if (numbers.promptTokens === null) return null
    if (isWithin(promptTokens, numbers.promptTokens)) return to
  }
  return models[0] as string
}
