// One metric: its sums and its rule → worse, fine or unsure, with the numbers that say why.

import { countFinding, eventSources, rateOf, type CountSums, type CountWindow } from './counts-test.ts'
import { driftFinding, highestTotalVariation, totalVariation } from './drift-test.ts'
import { meanInterval, meanOf } from './mean-interval.ts'
import type { CountRule, DriftRule, MemoryRule, MetricRule, PromqlRule, ShareRule, SignRule } from './metric-rule.ts'
import type { ArmValues, MetricSums, SignTestSums } from './metric-sums.ts'
import { shareInterval, type Interval } from './share-interval.ts'
import { shareAbove, wholeAlpha, type ShareCount } from './share-test.ts'
import { signFinding, type Votes } from './sign-test.ts'
import { ValueHistogram } from './value-histogram.ts'

type Verdict = 'worse' | 'fine' | 'unsure'

type ArmFigure = { readonly value: number; readonly interval: Interval | null; readonly count: number }

export type MetricVerdict = {
  readonly metric: string
  readonly verdict: Verdict
  /** ln e; null where the metric has no e-value. */
  readonly logEvidence: number | null
  /** The α of this metric. */
  readonly alpha: number
  readonly isSignificant: boolean
  readonly isMaterial: boolean
  readonly candidate: ArmFigure
  readonly stable: ArmFigure | null
  /** The numbers in a sentence, for records and people. */
  readonly why: string
}

type SumsOf<Test extends MetricSums['test']> = Extract<MetricSums, { readonly test: Test }>

/** `alpha` is the part of this metric. */
export function judgeMetric(rule: MetricRule, sums: MetricSums, alpha: number): MetricVerdict {
  if (rule.test === 'counts' && sums.test === 'counts') return judgeCounts(rule, sums.counts, alpha)
  if (rule.test === 'sign' && sums.test === 'sign') return judgeSigns(rule, sums, alpha)
  if (rule.test === 'share' && sums.test === 'share') return judgeShare(rule, sums, alpha)
  if (rule.test === 'drift' && sums.test === 'drift') return judgeDrift(rule, sums, alpha)
  if (rule.test === 'memory' && sums.test === 'memory') return judgeMemory(rule, sums, alpha)
  if (rule.test === 'promql' && sums.test === 'promql') return judgePromql(rule, sums, alpha)
  throw new Error(`metric '${rule.name}' is judged by the test '${rule.test}', its sums are of the test '${sums.test}'`)
}

/** No number of requests proves a difference of 0. */
const leastProvable = 0.005

const percent = (share: number): string => `${Number((share * 100).toPrecision(3))} %`
const short = (value: number): string => String(Number(value.toPrecision(3)))
const evidenceText = (logEvidence: number, alpha: number): string =>
  `e = ${Math.exp(Math.min(logEvidence, 700)).toPrecision(3)}, needed ${short(1 / alpha)}`

/**
 * Three questions share the metric's α: more events than stable in the same ticks; more events, alone at 100 %, than
 * stable ever had; more events than the limit. So the chance of any false alarm stays below α. The first question has the
 * fewest requests and gets the most.
 */
const alphaParts = { relative: 0.9, alone: 0.05, limit: 0.05 } as const

function judgeCounts(rule: CountRule, sums: CountSums, alpha: number): MetricVerdict {
  const needed = alpha * alphaParts.relative
  const { candidate, stable, alone } = sums
  const { logEvidence, window } = countFinding(sums)
  const [rateC, rateS] = [rateOf(candidate), rateOf(stable)]
  const isRelatively = logEvidence >= -Math.log(needed)
  const isLarger = isMuchMore(rule, rateOf(window.candidate), rateOf(window.stable))
  const ofAlone = shareInterval(alone.events, alone.requests, (alpha * alphaParts.alone) / 2)
  const ofStableBefore = shareInterval(stable.events, stable.requests, (alpha * alphaParts.alone) / 2)
  const isAlone = stable.requests > 0 && ofAlone.low > ofStableBefore.high + rule.addedRate
  const ofCandidate = shareInterval(candidate.events, candidate.requests, alpha * alphaParts.limit)
  const isOverLimit = rule.limit !== null && ofCandidate.low > rule.limit
  const isSignificant = isRelatively || isAlone || isOverLimit
  const hasEnough = hasEnoughEvents(rule, sums)
  const isMaterial = hasEnough && (isLarger || isAlone || isOverLimit)
  const isFound = isRelatively && isLarger && hasEnoughEvents(rule, window)
  const isWorse = hasEnough && (isFound || isAlone || isOverLimit)
  const shownC = shareInterval(candidate.events, candidate.requests, alpha / 2)
  const shownS = shareInterval(stable.events, stable.requests, alpha / 2)
  const isFine =
    shownC.high - shownS.low < Math.max(rule.addedRate, leastProvable) &&
    (rule.limit === null || ofCandidate.high < rule.limit)
  return {
    metric: rule.name,
    verdict: isWorse ? 'worse' : isFine ? 'fine' : 'unsure',
    logEvidence,
    alpha,
    isSignificant,
    isMaterial,
    candidate: { value: rateC, interval: shownC, count: candidate.requests },
    stable: { value: rateS, interval: shownS, count: stable.requests },
    why:
      `candidate ${candidate.events} of ${candidate.requests} (${percent(rateC)}), ` +
      `stable ${stable.events} of ${stable.requests} (${percent(rateS)}); ${evidenceText(logEvidence, needed)}` +
      (isRelatively && window !== sums ? `; of late ${windowText(window)}` : '') +
      (isAlone
        ? `; at 100 %: ${alone.events} of ${alone.requests}, stable had at most ${percent(ofStableBefore.high)}`
        : '') +
      (isOverLimit ? `; at least ${percent(ofCandidate.low)}, limit ${percent(rule.limit ?? 0)}` : ''),
  }
}

const isMuchMore = (rule: CountRule, candidate: number, stable: number): boolean =>
  candidate >= stable + rule.addedRate && candidate >= rule.factor * stable

const windowText = ({ candidate, stable }: CountWindow): string =>
  `${candidate.events} of ${candidate.requests} (${percent(rateOf(candidate))}) and ${stable.events} of ${stable.requests} (${percent(rateOf(stable))})`

/** A handful of events in one second, or of one user, is no finding, unless half of all requests fail. */
function hasEnoughEvents(rule: CountRule, window: CountWindow): boolean {
  const { requests, events } = window.candidate
  if (eventSources(window) < rule.leastSources) return false
  const isHalf = requests >= 20 && events * 2 >= requests
  return isHalf || (events >= rule.leastEvents && window.eventTicks >= rule.leastTicks)
}

function judgeSigns(rule: SignRule, sums: SignTestSums, alpha: number): MetricVerdict {
  const { logEvidence, best } = signFinding(sums.signs)
  const candidate = figureOf(rule, sums.candidate, alpha / 2)
  const stable = figureOf(rule, sums.stable, alpha / 2)
  const isSignificant = logEvidence >= -Math.log(alpha)
  const hasBoth = candidate.count > 0 && stable.count > 0
  // The size is looked at where the evidence is. Without a finding people see the size in the whole rollout.
  const ofLate = isSignificant && best !== null ? sums.later.find(({ start }) => start === best.start) : undefined
  const lateC = ofLate === undefined ? candidate.value : valueOf(rule, ofLate.candidate)
  const lateS = ofLate === undefined ? stable.value : valueOf(rule, ofLate.stable)
  const isMaterial = hasBoth && isWorseBy(rule, lateC, lateS)
  const [worstC, bestS] = rule.isHigherWorse
    ? [candidate.interval.high, stable.interval.low]
    : [candidate.interval.low, stable.interval.high]
  const isFine = hasBoth && Number.isFinite(worstC) && Number.isFinite(bestS) && !isWorseBy(rule, worstC, bestS)
  return {
    metric: rule.name,
    verdict: isSignificant && isMaterial ? 'worse' : isFine ? 'fine' : 'unsure',
    logEvidence,
    alpha,
    isSignificant,
    isMaterial,
    candidate,
    stable,
    why:
      `candidate ${short(candidate.value)}, stable ${short(stable.value)}; ${votesText(sums.signs)}; ` +
      evidenceText(logEvidence, alpha) +
      (ofLate === undefined || best === null
        ? ''
        : `; of late ${short(lateC)} and ${short(lateS)}, ${votesText(best)}`),
  }
}

const votesText = ({ against, inFavour }: Votes): string =>
  `${against} of ${against + inFavour} ticks against the candidate`

function isWorseBy(rule: SignRule, candidate: number, stable: number): boolean {
  const worseBy = rule.isHigherWorse ? candidate - stable : stable - candidate
  return worseBy >= Math.abs(stable) * rule.margin && worseBy >= rule.atLeast
}

function figureOf(rule: SignRule, values: ArmValues, alpha: number): ArmFigure & { readonly interval: Interval } {
  const { count } = values.mean
  if (rule.quantile === null) return { value: meanOf(values.mean), interval: meanInterval(values.mean, alpha), count }
  const histogram = new ValueHistogram(values.histogram)
  const interval = histogram.quantileInterval(rule.quantile, alpha)
  return { value: histogram.quantile(rule.quantile), interval, count }
}

const valueOf = ({ quantile }: SignRule, { mean, histogram }: ArmValues): number =>
  quantile === null ? meanOf(mean) : new ValueHistogram(histogram).quantile(quantile)

function judgeShare(rule: ShareRule, sums: SumsOf<'share'>, alpha: number): MetricVerdict {
  const { events, count } = sums
  const interval = shareInterval(events, count, wholeAlpha(alpha))
  const above = shareAbove(sums, rule.limit, alpha)
  const isWorse = above !== null
  const ofLate = above === null || above.count === count ? '' : lateShareText(above)
  return {
    metric: rule.name,
    verdict: isWorse ? 'worse' : count > 0 && interval.high < rule.limit ? 'fine' : 'unsure',
    logEvidence: null,
    alpha,
    isSignificant: isWorse,
    isMaterial: isWorse,
    candidate: { value: count === 0 ? 0 : events / count, interval, count },
    stable: null,
    why: `${events} of ${count}: between ${percent(interval.low)} and ${percent(interval.high)}, limit ${percent(rule.limit)}${ofLate}`,
  }
}

const lateShareText = ({ events, count, alpha }: ShareCount & { readonly alpha: number }): string =>
  `; of late ${events} of ${count}: at least ${percent(shareInterval(events, count, alpha).low)}`

function judgeDrift(rule: DriftRule, { drift }: SumsOf<'drift'>, alpha: number): MetricVerdict {
  const { logEvidence, window } = driftFinding(drift)
  const distance = totalVariation(drift)
  const highest = highestTotalVariation(drift, alpha)
  const isSignificant = logEvidence >= -Math.log(alpha)
  // The size is looked at where the evidence is.
  const ofLate = isSignificant && window !== drift ? totalVariation(window) : null
  const isMaterial = (ofLate ?? distance) >= rule.margin
  const count = drift.candidate.reduce((sum, each) => sum + each, 0)
  return {
    metric: rule.name,
    verdict: isSignificant && isMaterial ? 'worse' : highest < rule.margin ? 'fine' : 'unsure',
    logEvidence,
    alpha,
    isSignificant,
    isMaterial,
    candidate: { value: distance, interval: { low: 0, high: highest }, count },
    stable: null,
    why:
      `total variation ${short(distance)}, margin ${short(rule.margin)}; ${evidenceText(logEvidence, alpha)}` +
      (ofLate === null ? '' : `; of late ${short(ofLate)}`),
  }
}

function judgeMemory(rule: MemoryRule, sums: SumsOf<'memory'>, alpha: number): MetricVerdict {
  const { candidateBytes, stableBytes } = sums
  const isOver = rule.limitBytes !== null && candidateBytes > rule.limitBytes
  const isWorse = isOver || (stableBytes > 0 && candidateBytes > stableBytes * rule.factor)
  return {
    ...exact(rule, isWorse, candidateBytes > 0, alpha),
    candidate: { value: candidateBytes, interval: null, count: 1 },
    stable: { value: stableBytes, interval: null, count: 1 },
    why:
      `candidate ${candidateBytes} bytes, stable ${stableBytes} bytes; at most ${short(rule.factor)} times as much` +
      (rule.limitBytes === null ? '' : `, at most ${rule.limitBytes} bytes`),
  }
}

function judgePromql(rule: PromqlRule, sums: SumsOf<'promql'>, alpha: number): MetricVerdict {
  const isWorse = sums.failuresInRow >= rule.failures
  return {
    ...exact(rule, isWorse, sums.checks > 0 && sums.failuresInRow === 0, alpha),
    candidate: { value: sums.failuresInRow, interval: null, count: sums.checks },
    stable: null,
    why: `${sums.failuresInRow} checks in a row failed, ${rule.failures} are needed; ${sums.checks} checks in all`,
  }
}

function exact(
  rule: MetricRule,
  isWorse: boolean,
  isFine: boolean,
  alpha: number,
): Omit<MetricVerdict, 'candidate' | 'stable' | 'why'> {
  return {
    metric: rule.name,
    verdict: isWorse ? 'worse' : isFine ? 'fine' : 'unsure',
    logEvidence: null,
    alpha,
    isSignificant: isWorse,
    isMaterial: isWorse,
  }
}
