// What is judged, and when a difference matters. A finding needs both: evidence (the test) and size (the rule).

export type OnWorse = 'rollback' | 'pause' | 'note'

type Shared = {
  /** As the file has it: `errors`, `latency_p99`, `score:click`. */
  readonly name: string
  readonly onWorse: OnWorse
  /** Judged and shown, without effect. */
  readonly isDryRun: boolean
}

/** Events per request. The candidate is worse when its rate is higher by `addedRate` and by `factor`. */
export type CountRule = Shared & {
  readonly test: 'counts'
  readonly source: 'errors' | 'executions' | 'accuracy'
  readonly addedRate: number
  readonly factor: number
  readonly leastEvents: number
  readonly leastTicks: number
  /** Events must come from so many users. */
  readonly leastSources: number
  /** A rate that the candidate must not pass, whatever stable does; null: none. */
  readonly limit: number | null
}

/** Values of requests, compared tick by tick. */
export type SignRule = Shared & {
  readonly test: 'sign'
  /** `latency`, `first_response`, `compute`, `tokens_per_second`, `score:<name>`. */
  readonly source: string
  /** Null: the means of the ticks are compared. */
  readonly quantile: number | null
  /** The relative difference that matters: 0.2 for 20 %. */
  readonly margin: number
  /** The absolute difference that matters as well; 0: any. */
  readonly atLeast: number
  readonly isHigherWorse: boolean
}

/** A share of events that must stay below a limit. */
export type ShareRule = Shared & {
  readonly test: 'share'
  readonly source: 'slo' | 'agreement'
  readonly limit: number
  /** `slo`: the duration above which a request is an event; else 0. */
  readonly aboveMs: number
}

/** Classes or bins of an output. */
export type DriftRule = Shared & {
  readonly test: 'drift'
  readonly output: string
  /** The upper bounds of bins, ascending; null: the class with the highest score. */
  readonly bins: readonly number[] | null
  /** How many classes are told apart; the last one stands for all further ones. */
  readonly classes: number
  readonly margin: number
}

/** Bytes of memory of the version. No statistics: the figures are exact. */
export type MemoryRule = Shared & {
  readonly test: 'memory'
  readonly factor: number
  readonly limitBytes: number | null
}

/** A query of Prometheus that fails so many times in a row. */
export type PromqlRule = Shared & {
  readonly test: 'promql'
  readonly query: string
  readonly failIf: { readonly comparison: '>' | '>=' | '<' | '<=' | '==' | '!='; readonly value: number }
  readonly intervalNs: number
  readonly failures: number
}

export type MetricRule = CountRule | SignRule | ShareRule | DriftRule | MemoryRule | PromqlRule

const isStatistical = (rule: MetricRule): boolean => rule.test !== 'memory' && rule.test !== 'promql'

/** The part of α that one metric gets: an even split over the metrics that can roll back and that chance can fool. */
export function alphaPerMetric(rules: readonly MetricRule[], alpha: number): number {
  const guards = rules.filter((rule) => isStatistical(rule) && rule.onWorse === 'rollback' && !rule.isDryRun)
  return alpha / Math.max(1, guards.length)
}

/**
 * Several servers: all of them judge the merged sums with half of α, and each judges its own sums with an even part of the
 * other half. So a server can roll back alone, and the budget of false rollbacks holds.
 */
export const alphaOfScope = (alpha: number, servers: number, scope: 'merged' | 'own'): number =>
  servers <= 1 ? alpha : scope === 'merged' ? alpha / 2 : alpha / (2 * servers)

export function isPromqlFailure(rule: PromqlRule, value: number): boolean {
  const { comparison, value: limit } = rule.failIf
  const table = {
    '>': value > limit,
    '>=': value >= limit,
    '<': value < limit,
    '<=': value <= limit,
    '==': value === limit,
    '!=': value !== limit,
  }
  return table[comparison]
}
