// The file of `--actions`: which alerts, or figures of the server itself, make the server do what.

import { parseFileText, FileTextError } from '../base/file-text.ts'
import { PlanProblems, type PlanProblem, type PlanValue } from '../base/plan-reader.ts'
import { readMetricCondition, type MetricCondition } from './metric-condition.ts'

/** `scale` has the number of instances to add. */
export type AlertAction =
  | { readonly kind: 'rollback' | 'pause_jobs' | 'unload_idle' | 'notify' }
  | { readonly kind: 'scale'; readonly more: number }

export type AlertRule = {
  /** For the log and the audit log: the alert, or the condition. */
  readonly name: string
  /** Of Alertmanager; '' where a condition decides. */
  readonly alert: string
  /** Labels that the alert must have; `*` is any text, `vision-*` a beginning. */
  readonly labels: ReadonlyMap<string, string>
  readonly when: MetricCondition | null
  /** How long the condition must hold. */
  readonly forNs: number
  /** What the actions are about; '' : the label `model`. */
  readonly model: string
  readonly actions: readonly AlertAction[]
  readonly cooldownNs: number
  readonly isDryRun: boolean
}

type NotifyTarget = { readonly url: string; readonly secretEnv: string }
export type AlertPlan = { readonly rules: readonly AlertRule[]; readonly notify: readonly NotifyTarget[] }

export const mostRules = 100
const mostActions = 10
const mostMore = 64
const plainActions = ['rollback', 'pause_jobs', 'unload_idle', 'notify'] as const
const usualCooldownNs = 600e9
const example = 'rules:\n  - { alert: GalateaErrors, labels: { model: "*" }, do: [rollback] }'

/** A plan, or what is wrong with the text. */
export function readAlertPlan(text: string, format: 'yaml' | 'json'): AlertPlan | readonly PlanProblem[] {
  try {
    const { value, positionOf } = parseFileText(text, format)
    const problems = new PlanProblems(positionOf)
    const fields = problems.root(value).fields(['rules', 'notify'], example)
    const rules = (fields?.rules.items(mostRules, example) ?? []).map(readRule)
    const notify = (fields?.notify.isThere === true ? (fields.notify.items(mostActions) ?? []) : []).map(readTarget)
    const hasNotify = rules.some((rule) => rule?.actions.some(({ kind }) => kind === 'notify') === true)
    if (hasNotify && notify.length === 0) fields?.notify.fail('must name an address, because a rule has notify', 'notify: [{ url: https://… }]') // prettier-ignore
    const found = problems.list()
    return found.length > 0 ? found : { rules: rules.filter((rule) => rule !== null), notify: notify.filter((one) => one !== null) } // prettier-ignore
  } catch (reason) {
    if (!(reason instanceof FileTextError)) throw reason
    return [{ key: '', message: reason.message, fix: '', position: reason.position }]
  }
}

function readRule(rule: PlanValue): AlertRule | null {
  const fields = rule.fields(['alert', 'labels', 'when', 'for', 'model', 'do', 'cooldown', 'dry_run'], example)
  if (fields === null) return null
  if (fields.alert.isThere === fields.when.isThere) return rule.fail("must have either 'alert' or 'when'", example)
  if (fields.for.isThere && !fields.when.isThere)
    fields.for.fail("goes with 'when' alone: Alertmanager has its own 'for'")
  const alert = fields.alert.isThere ? fields.alert.text() : ''
  const when = fields.when.isThere ? readWhen(fields.when) : null
  const labels = fields.labels.isThere ? (fields.labels.entries(20) ?? []) : []
  const actions = (fields.do.items(mostActions, 'do: [rollback, { scale: 1 }]') ?? []).map(readAction)
  if (actions.length === 0) fields.do.fail('must name an action')
  return {
    name: alert === '' ? (when?.text ?? '') : (alert ?? ''),
    alert: alert ?? '',
    labels: new Map(labels.map(([key, value]) => [key, value.text() ?? ''])),
    when,
    forNs: fields.for.isThere ? (fields.for.durationNs() ?? 0) : 0,
    model: fields.model.isThere ? (fields.model.text() ?? '') : '',
    actions: actions.filter((action) => action !== null),
    cooldownNs: fields.cooldown.isThere ? (fields.cooldown.durationNs() ?? 0) : usualCooldownNs,
    isDryRun: fields.dry_run.isThere ? (fields.dry_run.flag() ?? false) : false,
  }
}

function readWhen(value: PlanValue): MetricCondition | null {
  const text = value.text()
  if (text === null) return null
  return readMetricCondition(text) ?? value.mustBe('a condition on a metric, as galatea_pressure > 0.95')
}

function readAction(value: PlanValue): AlertAction | null {
  if (value.isText) {
    const kind = value.word(plainActions)
    return kind === null ? null : { kind }
  }
  const more = value.fields(['scale'], 'do: [rollback, { scale: 1 }]')?.scale.integer(1, mostMore) ?? null
  return more === null ? null : { kind: 'scale', more }
}

function readTarget(value: PlanValue): NotifyTarget | null {
  const fields = value.fields(['url', 'secret_env'], 'notify: [{ url: https://… }]')
  const url = fields?.url.url() ?? null
  return fields === null || url === null ? null : { url, secretEnv: fields.secret_env.isThere ? (fields.secret_env.text() ?? '') : '' } // prettier-ignore
}
