// Takes alerts, looks at the server's own figures, and has the actions of the rules carried out: each on record, and not more often than
// its cooldown allows.

import { setImmediate as turnPassed } from 'node:timers/promises'
import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { AlertAction, AlertPlan, AlertRule } from './alert-plan.ts'
import { holdingSeries } from './metric-condition.ts'

type AlertOutcome = 'done' | 'nothing' | 'failed' | 'dry_run' | 'cooling'

/** What was done, or was not. */
export type AlertAct = {
  readonly rule: string
  readonly model: string
  readonly action: AlertAction['kind']
  readonly outcome: AlertOutcome
  readonly why: string
}

/** Each says what it did; '' where there was nothing to do. */
export type AlertDoer = {
  /** `holdSecs` is how long the effect lasts of an action that lasts. */
  carryOut(action: AlertAction, model: string, about: string, holdSecs: number): Promise<string>
}

type DeskParts = {
  readonly clock: Clock
  readonly log: Log
  readonly doer: AlertDoer
  /** Puts on record what was done, and for whom. */
  readonly record: (act: AlertAct, by: string) => void
}

type FiringAlert = { readonly name: string; readonly labels: Readonly<Record<string, string>> }

const mostAlerts = 1000
/** Others are served between them: each act is logged and put on record. */
const alertsPerTurn = 50
/** Labels are kept for the length of a cooldown, and logged. */
const longestLabel = 1024
/** Models of a rule that cool down at the same time. Beyond this many the oldest is forgotten. */
const mostCooling = 1000
const lookEveryNs = 5e9

export class AlertDesk {
  readonly #parts: DeskParts
  readonly #plan: AlertPlan
  readonly #log: Log
  /** By rule and model: when it acted. */
  readonly #actedNs = new Map<string, number>()
  /** By rule and series: since when the condition holds. */
  #heldSinceNs = new Map<string, number>()
  readonly #counts = new Map<string, number>()
  #cancel: Cancel | null = null
  #isClosed = false

  constructor(parts: DeskParts, plan: AlertPlan) {
    this.#parts = parts
    this.#plan = plan
    this.#log = parts.log.from('alert-desk.ts')
  }

  /** For metrics: by action and outcome. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  get watchesMetrics(): boolean {
    return this.#plan.rules.some(({ when }) => when !== null)
  }

  /** The body of Alertmanager's webhook, version 4. Throws INVALID_ARG. Resolved alerts make nothing happen. */
  async receive(body: unknown, by: string): Promise<readonly AlertAct[]> {
    const acts: AlertAct[] = []
    for (const [at, { name, labels }] of readAlerts(body).entries()) {
      if (at % alertsPerTurn === alertsPerTurn - 1) await turnPassed()
      const rules = this.#plan.rules.filter((rule) => rule.alert === name && hasLabels(rule, labels))
      for (const rule of rules) acts.push(...(await this.#act(rule, labels['model'] ?? '', `alert ${name}`, by)))
    }
    return acts
  }

  /** From now on the conditions are asked of the page every five seconds. */
  watch(page: () => string): void {
    if (!this.watchesMetrics || this.#isClosed) return
    this.#cancel = this.#parts.clock.after(lookEveryNs, () => void this.look(page()).finally(() => this.watch(page)))
  }

  /** Asks the conditions once. */
  async look(page: string): Promise<void> {
    const nowNs = this.#parts.clock.nowNs()
    const held = new Map<string, number>()
    for (const rule of this.#plan.rules) {
      const series = rule.when === null ? [] : holdingSeries(rule.when, page)
      for (const { labels, value } of series) {
        const key = JSON.stringify([rule.name, ...labels])
        const since = this.#heldSinceNs.get(key) ?? nowNs
        held.set(key, since)
        if (nowNs - since < rule.forNs) continue
        await this.#act(rule, labels.get('model') ?? '', `${rule.name}, it is ${value.toPrecision(4)}`, '')
      }
    }
    this.#heldSinceNs = held
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  async #act(rule: AlertRule, labelled: string, about: string, by: string): Promise<AlertAct[]> {
    const model = rule.model === '' ? labelled : rule.model
    const key = JSON.stringify([this.#plan.rules.indexOf(rule), model])
    const nowNs = this.#parts.clock.nowNs()
    const leftNs = (this.#actedNs.get(key) ?? -Infinity) + rule.cooldownNs - nowNs
    // A condition that goes on holding is no news.
    if (leftNs > 0 && rule.when !== null) return []
    if (leftNs > 0) {
      const why = `it acted before: the next time in ${Math.ceil(leftNs / 1e9)} s`
      return rule.actions.map(({ kind }) =>
        this.#told({ rule: rule.name, model, action: kind, outcome: 'cooling', why }),
      )
    }
    this.#actedNs.delete(key)
    this.#actedNs.set(key, nowNs)
    if (this.#actedNs.size > mostCooling) this.#actedNs.delete(this.#actedNs.keys().next().value as string)
    const acts: AlertAct[] = []
    for (const action of rule.actions) {
      const act = { rule: rule.name, model, action: action.kind, ...(await this.#tried(rule, action, model, about)) }
      this.#parts.record(act, by)
      acts.push(this.#told(act))
    }
    return acts
  }

  async #tried(
    rule: AlertRule,
    action: AlertAction,
    model: string,
    about: string,
  ): Promise<Pick<AlertAct, 'outcome' | 'why'>> {
    if (rule.isDryRun) return { outcome: 'dry_run', why: `${about}: dry_run is set, so nothing was done` }
    try {
      const did = await this.#parts.doer.carryOut(action, model, about, rule.cooldownNs / 1e9)
      return did === ''
        ? { outcome: 'nothing', why: `${about}: there was nothing to do` }
        : { outcome: 'done', why: `${about}: ${did}` }
    } catch (reason) {
      return { outcome: 'failed', why: `${about}: ${messageOf(reason)}` }
    }
  }

  #told(act: AlertAct): AlertAct {
    const { action, outcome, model, why } = act
    const key = JSON.stringify([action, outcome])
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    if (outcome === 'cooling') return act
    const write = outcome === 'failed' ? 'warning' : 'info'
    this.#log[write](`${action}${model === '' ? '' : ` for model '${model}'`}: ${outcome}, ${why}`)
    return act
  }
}

function hasLabels({ labels }: AlertRule, given: Readonly<Record<string, string>>): boolean {
  return [...labels].every(([key, wanted]) => {
    const value = given[key]
    if (value === undefined) return false
    return wanted.endsWith('*') ? value.startsWith(wanted.slice(0, -1)) : value === wanted
  })
}

function readAlerts(body: unknown): FiringAlert[] {
  const { version, alerts } = (body ?? {}) as { readonly version?: unknown; readonly alerts?: unknown }
  const wrong = (what: string): ServerError => new ServerError('INVALID_ARG', `the body must be that of Alertmanager's webhook, version 4: ${what}`) // prettier-ignore
  if (version !== undefined && version !== '4') throw wrong(`'version' is ${JSON.stringify(version)?.slice(0, 40)}`)
  if (!Array.isArray(alerts)) throw wrong("'alerts' must be a list")
  if (alerts.length > mostAlerts) throw wrong(`'alerts' has ${alerts.length} entries, at most ${mostAlerts} are taken`)
  return alerts.flatMap((alert: unknown, i) => {
    const { status, labels } = (alert ?? {}) as { readonly status?: unknown; readonly labels?: unknown }
    if (typeof labels !== 'object' || labels === null) throw wrong(`'alerts[${i}].labels' must be an object`)
    const long = Object.values(labels).find((value) => typeof value === 'string' && value.length > longestLabel) as string | undefined // prettier-ignore
    if (long !== undefined) throw wrong(`a label of 'alerts[${i}]' has ${long.length} characters, at most ${longestLabel} are taken`) // prettier-ignore
    const texts = Object.entries(labels).filter(([, value]) => typeof value === 'string') as [string, string][]
    const given: Record<string, string> = Object.fromEntries(texts)
    return status === 'firing' ? [{ name: given['alertname'] ?? '', labels: given }] : []
  })
}
