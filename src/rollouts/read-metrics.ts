// `judge` and `compare` of a rollout file.

import type { OutputComparison } from './compare-outputs.ts'
import type {
  CountRule,
  DriftRule,
  MemoryRule,
  MetricRule,
  OnWorse,
  PromqlRule,
  ShareRule,
  SignRule,
} from './judge/metric-rule.ts'
import { metricDefaults, metricNames } from './metric-defaults.ts'
import type { PlanValue } from '../base/plan-reader.ts'
import type { JudgePolicy } from './rollout-plan.ts'

const maxMetrics = 32
const maxOutputs = 100
const maxBins = 1000
const onWorseWords = ['rollback', 'pause', 'note'] as const
const usualMetrics = ['errors', 'latency_p99', 'latency_p50']

export function readJudge(at: PlanValue): JudgePolicy {
  const fields = at.isThere
    ? at.fields(['alpha', 'pass', 'early', 'metrics', 'on_worse', 'on_stall', 'step_timeout'])
    : null
  const onWorse = optional(fields?.on_worse, (value) => value.word(onWorseWords), 'rollback')
  return {
    alpha: optional(fields?.alpha, readAlpha, 0.05),
    pass: optional(fields?.pass, (value) => value.word(['not_worse', 'proven']), 'not_worse'),
    isEarly: optional(fields?.early, (value) => value.flag(), false),
    metrics: readMetrics(fields?.metrics, onWorse),
    onWorse,
    onStall: optional(fields?.on_stall, (value) => value.word(['pause', 'advance', 'rollback']), 'pause'),
    stepTimeoutNs: optional(fields?.step_timeout, (value) => value.durationNs(), 24 * 3600e9),
  }
}

/** The value of a key, or its default where the key is not there or wrong: what is wrong has been reported. */
export function optional<T>(at: PlanValue | undefined, read: (value: PlanValue) => T | null, otherwise: NoInfer<T>): T {
  return at === undefined || !at.isThere ? otherwise : (read(at) ?? otherwise)
}

export const readAlpha = (at: PlanValue): number | null => {
  const alpha = at.share(0.5)
  return alpha !== null && alpha < 1e-9 ? at.fail('must be at least 0.000000001', 'the usual value is 0.05') : alpha
}

function readMetrics(at: PlanValue | undefined, onWorse: OnWorse): MetricRule[] {
  if (at === undefined || !at.isThere) {
    return usualMetrics.map((name) => ({ ...(metricDefaults(name) as MetricRule), onWorse }))
  }
  const entries = at.entries(maxMetrics, 'as in { errors: {}, latency_p99: { margin: 20% } }') ?? []
  return entries.flatMap(([name, value]) => readMetric(name, value, onWorse) ?? [])
}

const readers: {
  readonly [Test in MetricRule['test']]: {
    readonly keys: readonly string[]
    readonly read: (rule: Extract<MetricRule, { test: Test }>, fields: Fields, at: PlanValue) => MetricRule | null
  }
} = {
  counts: { keys: ['margin', 'factor', 'at_least', 'limit'], read: readCounts },
  sign: { keys: ['margin', 'at_least_ms', 'at_least', 'better'], read: readSign },
  share: { keys: ['ms', 'share', 'min'], read: readShare },
  drift: { keys: ['output', 'top1', 'bins', 'classes', 'margin'], read: readDrift },
  memory: { keys: ['factor', 'limit_bytes'], read: readMemory },
  promql: { keys: ['query', 'fail_if', 'interval', 'failures'], read: readPromql },
}

type Fields = Readonly<Record<string, PlanValue>>

function readMetric(name: string, at: PlanValue, onWorse: OnWorse): MetricRule | null {
  const usual = metricDefaults(name)
  if (usual === null) return at.fail('is not a metric', `metrics: ${metricNames.join(', ')}`)
  const { keys, read } = readers[usual.test]
  // `errors:` without a value means the same as `errors: {}`.
  const fields: Fields | null = at.isThere ? at.fields([...keys, 'on_worse', 'dry_run']) : {}
  if (fields === null) return null
  const rule: MetricRule = {
    ...usual,
    onWorse: optional(fields['on_worse'], (value) => value.word(onWorseWords), onWorse),
    isDryRun: optional(fields['dry_run'], (value) => value.flag(), false),
  }
  return (read as (rule: MetricRule, fields: Fields, at: PlanValue) => MetricRule | null)(rule, fields, at)
}

function readCounts(rule: CountRule, fields: Fields): MetricRule {
  return {
    ...rule,
    addedRate: optional(fields['margin'], (value) => value.share(), rule.addedRate),
    factor: optional(fields['factor'], (value) => value.number(1, 1000), rule.factor),
    leastEvents: optional(fields['at_least'], (value) => value.integer(1, 1e9), rule.leastEvents),
    limit: optional<number | null>(fields['limit'], (value) => value.share(), rule.limit),
  }
}

function readSign(rule: SignRule, fields: Fields): MetricRule {
  const isTime = rule.source === 'latency' || rule.source === 'first_response'
  const wrong = fields[isTime ? 'at_least' : 'at_least_ms']
  if (wrong?.isThere === true) wrong.fail(`is not a key of '${rule.name}'`, isTime ? "use 'at_least_ms'" : "use 'at_least'") // prettier-ignore
  const better = optional(fields['better'], (value) => value.word(['higher', 'lower']), rule.isHigherWorse ? 'lower' : 'higher') // prettier-ignore
  return {
    ...rule,
    margin: optional(fields['margin'], (value) => value.share(10), rule.margin),
    atLeast: optional(fields[isTime ? 'at_least_ms' : 'at_least'], (value) => value.number(0, 1e9), rule.atLeast),
    isHigherWorse: better === 'lower',
  }
}

function readShare(rule: ShareRule, fields: Fields, at: PlanValue): MetricRule | null {
  const { ms, share, min } = fields
  if (rule.source === 'agreement') {
    if (ms?.isThere === true || share?.isThere === true)
      return at.fail("takes only 'min'", 'as in agreement: { min: 99% }')
    return { ...rule, limit: 1 - optional(min, (value) => value.share(), 1 - rule.limit) }
  }
  if (min?.isThere === true || ms?.isThere !== true || share?.isThere !== true) {
    return at.fail("needs 'ms' and 'share'", 'as in slo: { ms: 200, share: 1% }')
  }
  const [aboveMs, limit] = [ms.number(0.001, 1e9), share.share()]
  return aboveMs === null || limit === null ? null : { ...rule, aboveMs, limit }
}

function readDrift(rule: DriftRule, fields: Fields, at: PlanValue): MetricRule | null {
  const { output, top1, bins, classes, margin } = fields
  if (output?.isThere !== true) return at.fail("needs 'output'", 'as in drift: { output: PROB, top1: true }')
  const name = output.text()
  const isTop1 = optional(top1, (value) => value.flag(), bins?.isThere !== true)
  if (isTop1 === (bins?.isThere === true)) return at.fail("needs either 'top1: true' or 'bins'")
  const bounds = isTop1
    ? null
    : (bins?.items(maxBins)?.map((item) => item.number(-Number.MAX_VALUE, Number.MAX_VALUE)) ?? [])
  const isRising = bounds === null || bounds.every((bound, i) => i === 0 || (bound ?? 0) > (bounds[i - 1] ?? 0))
  if (!isRising || bounds?.length === 0) return at.fail("needs 'bins' that rise", 'as in bins: [0.1, 0.5, 0.9]')
  return {
    ...rule,
    output: name ?? '',
    bins: bounds as number[] | null,
    classes:
      bounds === null ? optional(classes, (value) => value.integer(2, maxBins), rule.classes) : bounds.length + 1,
    margin: optional(margin, (value) => value.share(), rule.margin),
  }
}

function readMemory(rule: MemoryRule, fields: Fields): MetricRule {
  return {
    ...rule,
    factor: optional(fields['factor'], (value) => value.number(1, 1000), rule.factor),
    limitBytes: optional<number | null>(fields['limit_bytes'], (value) => value.integer(1, 2 ** 50), rule.limitBytes),
  }
}

function readPromql(rule: PromqlRule, fields: Fields, at: PlanValue): MetricRule | null {
  const { query, fail_if: failIf, interval, failures } = fields
  const example = 'as in promql: { query: "…", fail_if: "> 0.01" }'
  if (query?.isThere !== true || failIf?.isThere !== true) return at.fail("needs 'query' and 'fail_if'", example)
  const [, comparison, digits] = /^(>=|<=|==|!=|>|<) ?(-?[0-9.eE+-]{1,30})$/.exec(failIf.text() ?? '') ?? []
  if (comparison === undefined || !Number.isFinite(Number(digits))) {
    return failIf.mustBe('a comparison with a number, as "> 0.01"')
  }
  return {
    ...rule,
    query: query.text() ?? '',
    failIf: { comparison: comparison as PromqlRule['failIf']['comparison'], value: Number(digits) },
    intervalNs: optional(interval, (value) => value.durationNs(), rule.intervalNs),
    failures: optional(failures, (value) => value.integer(1, 1000), rule.failures),
  }
}

/** `compare: { PROB: { close: { rtol: 1e-3 } }, LABEL: exact }`. */
export function readCompare(at: PlanValue): Record<string, OutputComparison> {
  if (!at.isThere) return {}
  const all = Object.create(null) as Record<string, OutputComparison>
  for (const [output, value] of at.entries(maxOutputs) ?? []) {
    const comparison = value.isText ? readPlainComparison(value) : readComparison(value)
    if (comparison !== null) all[output] = comparison
  }
  return all
}

function readPlainComparison(at: PlanValue): OutputComparison | null {
  const word = at.word(['exact', 'ignore', 'top1'])
  return word === 'top1' ? { how: 'topk', k: 1 } : word && { how: word }
}

function readComparison(at: PlanValue): OutputComparison | null {
  const fields = at.fields(['close', 'topk', 'cosine', 'max_abs', 'iou', 'text'])
  if (fields === null) return null
  const { close, topk, cosine, max_abs: maxAbs, iou, text } = fields
  const found = Object.values(fields).filter((field) => field.isThere)
  if (found.length !== 1) return at.fail('must say one way to compare', 'as in { cosine: 0.99 } or exact')
  if (close.isThere) {
    const bounds = close.fields(['rtol', 'atol'])
    const bound = (value: PlanValue | undefined): number =>
      optional(value, (each) => each.number(0, Number.MAX_VALUE), 0)
    return bounds && { how: 'close', rtol: bound(bounds.rtol), atol: bound(bounds.atol) }
  }
  if (topk.isThere) {
    const k = topk.integer(1, 1000)
    return k === null ? null : { how: 'topk', k }
  }
  if (maxAbs.isThere) {
    const threshold = maxAbs.number(0, Number.MAX_VALUE)
    return threshold === null ? null : { how: 'max_abs', threshold }
  }
  const [how, chosen] = cosine.isThere ? (['cosine', cosine] as const) : iou.isThere ? (['iou', iou] as const) : (['text', text] as const) // prettier-ignore
  const threshold = chosen.number(0, 1)
  return threshold === null ? null : { how, threshold }
}
