// Alerts that act, put together: the rules of `--actions`, and what the server can do about an alert.

import { readFile } from 'node:fs/promises'
import { makeCaller } from './access/caller.ts'
import { AlertDesk, type AlertAct, type AlertDoer } from './alerts/alert-desk.ts'
import { readAlertPlan, type AlertPlan } from './alerts/alert-plan.ts'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { messageOf, ServerError } from './base/server-error.ts'
import type { Engine } from './engine/engine.ts'
import type { JobControl } from './jobs/job-control.ts'
import type { LazyReleases } from './lazy-releases.ts'
import type { LazyScaling } from './lazy-scaling.ts'
import { changeOrigin } from './model/change-origin.ts'
import { Outbox } from './releases/outbox.ts'
import type { AuditLog } from './telemetry/audit-log.ts'

type AlertDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly audit: AuditLog
  readonly engine: Engine
  readonly rollouts: LazyReleases
  readonly scaling: LazyScaling
  /** Null: the server runs no jobs. */
  readonly jobs: { readonly control: JobControl } | null
}

const largestFileChars = 256 * 1024
/** A model that was asked within this time is not idle. */
const idleNs = 60e9

/** Throws INVALID_ARG with everything that is wrong with the file. */
export async function openAlerts(dependencies: AlertDependencies, file: string): Promise<AlertDesk> {
  const plan = await readPlan(file)
  const { clock, log, audit } = dependencies
  const outbox = new Outbox(clock, log, { prometheusUrl: '', secrets: process.env })
  const record = (act: AlertAct, by: string): void => recordAct(audit, clock, act, by)
  return new AlertDesk({ clock, log, doer: doerOf(dependencies, outbox, plan), record }, plan)
}

async function readPlan(file: string): Promise<AlertPlan> {
  const plan = await readActionsFile(file)
  if ('rules' in plan) return plan
  const lines = plan.map(({ message, fix, position }) => `${file}${position === null ? '' : `:${position.line}`}: ${message}${fix === '' ? '' : `. ${fix}`}`) // prettier-ignore
  throw new ServerError('INVALID_ARG', `--actions:\n${lines.join('\n')}`)
}

/** A plan, or what is wrong with the file. Throws INVALID_ARG for a file that cannot be read. */
export async function readActionsFile(file: string): Promise<ReturnType<typeof readAlertPlan>> {
  const text = await readFile(file, 'utf8').catch((reason: unknown) => {
    throw new ServerError('INVALID_ARG', `--actions: '${file}' cannot be read: ${messageOf(reason)}`)
  })
  if (text.length > largestFileChars) throw new ServerError('INVALID_ARG', `--actions: '${file}' has ${text.length} characters, at most ${largestFileChars} are read`) // prettier-ignore
  return readAlertPlan(text, file.endsWith('.json') ? 'json' : 'yaml')
}

function doerOf(
  { engine, rollouts, scaling, jobs }: AlertDependencies,
  outbox: Outbox,
  { notify }: AlertPlan,
): AlertDoer {
  const idle = async (): Promise<string> =>
    (await engine.sleepIdle(idleNs)).map((name) => `'${name}' left the memory`).join(', ')
  return {
    carryOut: async (action, model, about, holdSecs) => {
      if (action.kind === 'rollback') return rollBack(rollouts, requireModel(model), about)
      if (action.kind === 'pause_jobs') return await pauseJobs(jobs?.control ?? null, model)
      if (action.kind === 'unload_idle') return await idle()
      if (action.kind === 'scale') return holdMore(scaling, requireModel(model), action.more, holdSecs)
      for (const target of notify) outbox.post(target, about, JSON.stringify({ event: 'alert', model, about }))
      return `${notify.length} address(es) are told`
    },
  }
}

function holdMore(scaling: LazyScaling, model: string, more: number, secs: number): string {
  const held = scaling.hold(model, more, secs)
  if (held !== null) return `at least ${held.count} instances for ${secs} s`
  throw new ServerError('INVALID_ARG', `model '${model}' has no instances that follow load: it needs 'instances_max'`)
}

function requireModel(model: string): string {
  if (model !== '') return model
  throw new ServerError('INVALID_ARG', "the alert has no label 'model', and the rule no 'model'")
}

function rollBack(rollouts: LazyReleases, model: string, about: string): string {
  const control = rollouts.opened?.control ?? null
  const run = control?.liveOf(model) ?? null
  if (control === null || run === null) return ''
  control.act(run.record.name, 'rollback', makeCaller('anonymous', 'alert'), about, '')
  return `rollout '${run.record.name}' goes back`
}

/** Of one model, or all. */
async function pauseJobs(jobs: JobControl | null, model: string): Promise<string> {
  const open = (jobs?.list() ?? []).filter(({ state, plan }) => (state === 'RUNNING' || state === 'WAITING') && (model === '' || plan.model === model)) // prettier-ignore
  for (const { id } of open) await jobs?.pause(id)
  return open.map(({ id }) => `job '${id}' is paused`).join(', ')
}

function recordAct(audit: AuditLog, clock: Clock, { action, model, outcome, why }: AlertAct, by: string): void {
  audit.record({
    timeMs: clock.wallMs(),
    action: `alert.${action}`,
    model,
    versions: [],
    outcome: outcome === 'failed' ? 'failed' : outcome === 'done' ? 'ok' : 'unchanged',
    reason: why,
    durationMs: 0,
    override: '',
    origin: changeOrigin('alert', { key: by }),
    contentHash: () => Promise.resolve(null),
  })
}
