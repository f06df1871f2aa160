// The object of `rollout.yaml`, `rollout.yml`, `rollout.json` and of POST /v2/rollouts. Unknown keys are mistakes: a guard that
// is spelled wrong must not be taken for one that is off.

import { PlanProblems, type PlanProblem, type PlanValue, type Position } from '../base/plan-reader.ts'
import { readAlpha, optional, readCompare, readJudge } from './read-metrics.ts'
import { readKey, readRules } from './read-rules.ts'
import { readSteps } from './read-steps.ts'
import { fullWeight } from './assignment.ts'
import { notifyEvents, type ExperimentArm, type ExperimentPlan, type FeedbackPolicy, type Notification, type RolloutPlan, type VersionReference } from './rollout-plan.ts' // prettier-ignore

type ReadRollout = {
  /** Null when there are problems: a file with a mistake changes nothing. */
  readonly plan: RolloutPlan | ExperimentPlan | null
  readonly problems: readonly PlanProblem[]
}

const sharedKeys = ['kind', 'key', 'salt', 'rules', 'notify', 'feedback', 'expose'] as const
const rolloutKeys = [...sharedKeys, 'candidate', 'stable', 'steps', 'judge', 'fallback', 'compare', 'sequences', 'drain', 'keep_stable', 'keep_candidate', 'allow_signature_change', 'baseline'] as const // prettier-ignore
const experimentKeys = [...sharedKeys, 'arms', 'goals', 'alpha', 'until', 'promote_winner'] as const

const maxNotifications = 16
const maxGoals = 16
const fewestArms = 2
const mostArms = 8

/** `extraKeys` are keys of the caller's own, which are left alone: a posted object has `name`, `model` and `retry`. */
export function readRolloutFile(
  value: unknown,
  positionOf: (keys: readonly string[]) => Position | null,
  extraKeys: readonly string[] = [],
): ReadRollout {
  const problems = new PlanProblems(positionOf)
  const root = problems.root(value)
  const kind = kindOf(root)
  const plan = kind === 'experiment' ? readExperiment(root, extraKeys) : kind && readRollout(root, extraKeys)
  return { plan: problems.list().length > 0 ? null : plan, problems: problems.list() }
}

function kindOf(root: PlanValue): 'rollout' | 'experiment' | null {
  if (!root.isMapping) return root.mustBe('a mapping of keys to values', 'begin with: kind: rollout')
  if (!Object.hasOwn(root.value as object, 'kind'))
    return root.fail("needs the key 'kind'", 'begin with: kind: rollout')
  const { kind } = root.value as { readonly kind: unknown }
  return kind === 'rollout' || kind === 'experiment' ? kind : root.fail(`has the kind '${String(kind).slice(0, 60)}', expected rollout or experiment`) // prettier-ignore
}

type SharedFields = Readonly<Record<(typeof sharedKeys)[number], PlanValue>>

function readShared(
  fields: SharedFields,
  arms: readonly string[],
): Pick<RolloutPlan, 'key' | 'salt' | 'rules' | 'notify' | 'feedback' | 'isExposed'> {
  return {
    key: readKey(fields.key),
    salt: optional(fields.salt, (value) => value.text(), ''),
    rules: readRules(fields.rules, arms),
    notify: readNotifications(fields.notify),
    feedback: readFeedbackPolicy(fields.feedback),
    isExposed: optional(fields.expose, (value) => value.flag(), true),
  }
}

function readRollout(root: PlanValue, extraKeys: readonly string[]): RolloutPlan | null {
  const fields = root.fields([...rolloutKeys, ...extraKeys]) as Readonly<
    Record<(typeof rolloutKeys)[number], PlanValue>
  > | null
  if (fields === null) return null
  const isSignatureChangeAllowed = optional(fields.allow_signature_change, (value) => value.flag(), false)
  const plan: RolloutPlan = {
    kind: 'rollout',
    ...readShared(fields, ['candidate', 'stable']),
    candidate: optional(fields.candidate, (value) => readReference(value, 'latest'), {
      model: null,
      version: 'latest',
    }),
    stable: optional(fields.stable, (value) => readReference(value, 'current'), { model: null, version: 'current' }),
    steps: readSteps(fields.steps),
    judge: readJudge(fields.judge),
    fallback: optional(fields.fallback, (value) => value.word(['stable', 'none']), 'stable'),
    compare: readCompare(fields.compare),
    sequences: optional(fields.sequences, (value) => value.word(['finish', 'fail']), 'finish'),
    drainNs: optional(fields.drain, (value) => value.durationNs(), 30e9),
    keepStableNs: optional(fields.keep_stable, (value) => value.durationNs(), 3600e9),
    isCandidateKept: optional(fields.keep_candidate, (value) => value.flag(), false),
    isSignatureChangeAllowed,
    hasBaseline: optional(fields.baseline, (value) => value.flag(), false),
  }
  const isComparing = plan.steps.some(({ kind }) => kind === 'shadow')
  if (!isComparing && plan.judge.metrics.some((rule) => rule.test === 'share' && rule.source === 'agreement')) {
    fields.judge.fail(
      "has the metric 'agreement', which no step compares",
      'add a step such as { shadow: 10, for: 10m }',
    )
  }
  // The body cannot be read before the version is known, when the versions have different inputs.
  if (isSignatureChangeAllowed && plan.key.some(({ from }) => from === 'parameter')) {
    fields.key.fail(
      "must not have 'parameter:' with 'allow_signature_change'",
      'take the key from a header or a cookie',
    )
  }
  return plan
}

function readExperiment(root: PlanValue, extraKeys: readonly string[]): ExperimentPlan | null {
  const fields = root.fields([...experimentKeys, ...extraKeys]) as Readonly<
    Record<(typeof experimentKeys)[number], PlanValue>
  > | null
  if (fields === null) return null
  const arms = readArms(fields.arms)
  return {
    kind: 'experiment',
    ...readShared(fields, arms.map(({ name }) => name)), // prettier-ignore
    arms,
    goals: readGoals(fields.goals),
    alpha: optional(fields.alpha, readAlpha, 0.05),
    until: optional<ExperimentPlan['until']>(fields.until, readUntil, null),
    isWinnerPromoted: optional(fields.promote_winner, (value) => value.flag(), false),
  }
}

function readArms(at: PlanValue): ExperimentArm[] {
  const example = 'as in [{ name: a, version: 1, weight: 50 }, { name: b, version: 2, weight: 50 }]'
  const items = at.items(mostArms, example)
  if (items === null) return []
  const arms = items.flatMap((item) => readArm(item) ?? [])
  if (items.length < fewestArms) at.fail(`must have ${fewestArms} to ${mostArms} arms, got ${items.length}`, example)
  else if (arms.length === items.length) {
    const total = arms.reduce((sum, { weight }) => sum + weight, 0)
    if (total !== fullWeight) at.fail(`must have weights that add up to 100, got ${total / 100}`)
    if (new Set(arms.map(({ name }) => name)).size < arms.length) at.fail('must have a different name for each arm')
  }
  return arms
}

function readArm(at: PlanValue): ExperimentArm | null {
  const fields = at.fields(['name', 'version', 'model', 'weight'])
  if (fields === null) return null
  const [name, weight] = [fields.name.text(), fields.weight.weight()]
  if (name !== null && !/^[\w.-]{1,100}$/.test(name)) return fields.name.mustBe('a name of letters, digits, _, - and .')
  if (!fields.version.isThere && !fields.model.isThere) return at.fail("needs 'version' or 'model'")
  const model = optional<string | null>(fields.model, (value) => value.text(), null)
  const version = optional(fields.version, (value) => readVersion(value, 'latest'), 'latest')
  return name === null || weight === null ? null : { name, weight, reference: { model, version } }
}

/** A version number, the word, or `{model, version}`. */
function readReference(at: PlanValue, word: 'latest' | 'current'): VersionReference | null {
  if (!at.isMapping) {
    const version = readVersion(at, word)
    return version === null ? null : { model: null, version }
  }
  const fields = at.fields(['model', 'version'])
  const model = fields?.model.text('the name of a model') ?? null
  if (fields === null || model === null) return null
  return { model, version: optional(fields.version, (value) => readVersion(value, word), word) }
}

function readVersion(at: PlanValue, word: string): string | null {
  const { value } = at
  if (value === word) return word
  const text = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value
  return typeof text === 'string' && /^[1-9][0-9]{0,18}$/.test(text) ? text : at.mustBe(`${word} or a version number`)
}

function readGoals(at: PlanValue): string[] {
  const goals = at.texts(maxGoals) ?? []
  const wrong = goals.find((goal) => goal !== 'accuracy' && !/^score:.{1,100}$/.test(goal))
  if (wrong !== undefined) at.fail(`must have accuracy or score:<name>, got '${wrong.slice(0, 60)}'`)
  else if (goals.length === 0) at.fail('must have a goal', 'as in [score:click]')
  return goals
}

function readUntil(at: PlanValue): ExperimentPlan['until'] {
  const expected = 'a time, as 14d, or a moment, as "2030-01-31T12:00:00Z"'
  const text = at.text(expected)
  if (text === null) return null
  if (/^[0-9]+[smhd]$/.test(text)) {
    const afterNs = at.durationNs()
    return afterNs === null ? null : { afterNs }
  }
  const isMoment = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})$/.test(text)
  const wallMs = isMoment ? Date.parse(text) : NaN
  return Number.isNaN(wallMs) ? at.mustBe(expected) : { wallMs }
}

function readNotifications(at: PlanValue): Notification[] {
  if (!at.isThere) return []
  return (at.items(maxNotifications) ?? []).flatMap((item) => {
    const fields = item.fields(['url', 'events', 'secret_env'], 'as in { url: "https://…", events: [rolled_back] }')
    const url = fields?.url.url() ?? null
    if (fields === null || url === null) return []
    const events = fields.events.isThere
      ? (fields.events.items(notifyEvents.length) ?? []).flatMap((event) => event.word(notifyEvents) ?? [])
      : notifyEvents
    const secretEnv = optional(fields.secret_env, (value) => value.text(), '')
    if (!/^([A-Za-z_][A-Za-z0-9_]*)?$/.test(secretEnv)) fields.secret_env.mustBe('the name of an environment variable')
    return [{ url, events, secretEnv }]
  })
}

function readFeedbackPolicy(at: PlanValue): FeedbackPolicy | null {
  if (!at.isThere) return null
  const fields = at.fields(['output', 'kind', 'threshold'], 'as in { output: PROB, kind: top1 }')
  const output = fields?.output.text('the name of an output') ?? null
  if (fields === null || output === null) return null
  return {
    output,
    kind: optional(fields.kind, (value) => value.word(['top1', 'exact', 'threshold']), 'top1'),
    threshold: optional(fields.threshold, (value) => value.number(-Number.MAX_VALUE, Number.MAX_VALUE), 0.5),
  }
}
