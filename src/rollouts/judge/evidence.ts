// Collects what the judge needs while a rollout lives: one call per finished request, one per tick. What it holds is a set of
// sums, which can be stored and taken up again.

import { CountedClasses } from './counted-classes.ts'
import { CountedShare } from './counted-share.ts'
import type { MetricRule, PromqlRule, SignRule } from './metric-rule.ts'
import { isPromqlFailure } from './metric-rule.ts'
import { noMetricSums, type EvidenceSums, type MetricSums } from './metric-sums.ts'
import { PairedCounts } from './paired-counts.ts'
import { PairedValues, type ArmName } from './paired-values.ts'

/** A finished request that is judged. NaN where a value is not known. */
export type RequestSample = {
  readonly isError: boolean
  /** The bucket of its sticky key; null: it had none. */
  readonly bucket: number | null
  /** The duration less the time in the queue up to the model's max_queue_delay. */
  readonly latencyMs: number
  readonly firstResponseMs: number
  readonly computeSecondsPerRow: number
  readonly tokensPerSecond: number
}

export class Evidence {
  readonly #rules: readonly MetricRule[]
  readonly #counts = new Map<string, PairedCounts>()
  readonly #values = new Map<string, PairedValues>()
  readonly #valueRules: ReadonlyMap<string, readonly SignRule[]>
  readonly #shares = new Map<string, CountedShare>()
  readonly #classes = new Map<string, CountedClasses>()
  /** Tests without ticks: memory, queries. */
  readonly #plain = new Map<string, MetricSums>()
  readonly #slo: { readonly aboveMs: number; readonly share: CountedShare }[] = []
  readonly #agreement: CountedShare[] = []

  // What every request adds to, without a look into a map. Undefined where no rule wants it.
  readonly #errors: PairedCounts | undefined
  readonly #latency: PairedValues | undefined
  readonly #firstResponse: PairedValues | undefined
  readonly #compute: PairedValues | undefined
  readonly #tokens: PairedValues | undefined

  /** `known` are the sums of before a restart. */
  constructor(rules: readonly MetricRule[], known: EvidenceSums, random: () => number, nowNs: number) {
    this.#rules = rules
    this.#valueRules = Map.groupBy(
      rules.filter((rule) => rule.test === 'sign'),
      (rule) => rule.source,
    )
    for (const rule of rules) {
      const sums = known[rule.name]
      if (rule.test === 'counts') {
        this.#counts.set(rule.source, new PairedCounts(sums?.test === 'counts' ? sums.counts : undefined, nowNs))
      } else if (rule.test === 'share') {
        const share = new CountedShare(sums?.test === 'share' ? sums : undefined)
        this.#shares.set(rule.name, share)
        if (rule.source === 'slo') this.#slo.push({ aboveMs: rule.aboveMs, share })
        else this.#agreement.push(share)
      } else if (rule.test === 'drift') {
        const known = sums?.test === 'drift' ? sums.drift : undefined
        this.#classes.set(rule.name, new CountedClasses(rule.classes, known))
      } else if (rule.test !== 'sign') {
        this.#plain.set(rule.name, sums?.test === rule.test ? structuredClone(sums) : noMetricSums(rule))
      }
    }
    for (const [source, signRules] of this.#valueRules) {
      const knownSums = signRules.map((rule) => {
        const sums = known[rule.name]
        return sums?.test === 'sign' ? sums : undefined
      })
      this.#values.set(source, new PairedValues(signRules, knownSums, random, nowNs))
    }
    this.#errors = this.#counts.get('errors')
    this.#latency = this.#values.get('latency')
    this.#firstResponse = this.#values.get('first_response')
    this.#compute = this.#values.get('compute')
    this.#tokens = this.#values.get('tokens_per_second')
  }

  /** HOT: once per judged request. */
  addRequest(arm: ArmName, sample: RequestSample): void {
    this.#errors?.add(arm, sample.isError, sample.bucket)
    // A version that fails at once is not a quick version: only answers have values.
    if (!sample.isError) {
      this.#latency?.add(arm, sample.latencyMs)
      this.#firstResponse?.add(arm, sample.firstResponseMs)
      this.#compute?.add(arm, sample.computeSecondsPerRow)
      this.#tokens?.add(arm, sample.tokensPerSecond)
    }
    if (arm === 'stable') return
    for (const { aboveMs, share } of this.#slo) share.add(sample.latencyMs > aboveMs)
  }

  addExecutions(arm: ArmName, executions: number, deaths: number): void {
    this.#counts.get('executions')?.addMany(arm, executions, deaths)
  }

  /** A feedback that says whether the answer was right. */
  addCorrectness(arm: ArmName, isWrong: boolean, bucket: number | null): void {
    this.#counts.get('accuracy')?.add(arm, isWrong, bucket)
  }

  /** A feedback with a number; `name` is that of `score:<name>`. */
  addScore(arm: ArmName, name: string, score: number): void {
    this.#values.get(`score:${name}`)?.add(arm, score)
  }

  /** A compared pair of a shadow copy. */
  addPair(isEqual: boolean): void {
    for (const share of this.#agreement) share.add(!isEqual)
  }

  /** The class (or bin) of an answer; classes beyond the last one count as the last one. */
  addClass(arm: ArmName, metric: string, index: number): void {
    this.#classes.get(metric)?.add(arm, index)
  }

  setMemory(candidateBytes: number, stableBytes: number): void {
    for (const rule of this.#rules) {
      if (rule.test === 'memory') this.#plain.set(rule.name, { test: 'memory', candidateBytes, stableBytes })
    }
  }

  /** The value that a query of Prometheus gave. A query without an answer is no check. */
  addQuery(rule: PromqlRule, value: number): void {
    const sums = this.#plain.get(rule.name)
    if (sums?.test !== 'promql') return
    const failuresInRow = isPromqlFailure(rule, value) ? sums.failuresInRow + 1 : 0
    this.#plain.set(rule.name, { test: 'promql', failuresInRow, checks: sums.checks + 1 })
  }

  /** Once a second. `hasControl`: stable gets requests of the same kind, so the weight is below 100 %. */
  tick(nowNs: number, hasControl: boolean): void {
    for (const counts of this.#counts.values()) counts.tick(nowNs, hasControl)
    for (const values of this.#values.values()) values.tick(nowNs)
    for (const share of this.#shares.values()) share.tick()
    for (const classes of this.#classes.values()) classes.tick()
  }

  sums(): EvidenceSums {
    const all: Record<string, MetricSums> = {}
    for (const rule of this.#rules) {
      if (rule.test !== 'counts') continue
      const counts = this.#counts.get(rule.source)
      if (counts !== undefined) all[rule.name] = { test: 'counts', counts: counts.sums() }
    }
    for (const [source, rules] of this.#valueRules) {
      const sums = this.#values.get(source)?.sums() ?? []
      rules.forEach((rule, i) => (all[rule.name] = sums[i] as MetricSums))
    }
    for (const [name, share] of this.#shares) all[name] = { test: 'share', ...share.sums() }
    for (const [name, classes] of this.#classes) all[name] = { test: 'drift', drift: classes.sums() }
    for (const [name, sums] of this.#plain) all[name] = structuredClone(sums)
    return all
  }
}
