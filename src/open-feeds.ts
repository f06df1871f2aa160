// The feeds put together: what the console and other watchers see of a running server.

import { join } from 'node:path'
import type { Clock } from './base/clock.ts'
import { silentLog } from './base/log.ts'
import type { LogHistory } from './base/log-history.ts'
import { ServerError } from './base/server-error.ts'
import { createModelInspector } from './create-model-inspector.ts'
import { describeServer, type ServerSelf } from './describe-server.ts'
import type { Engine } from './engine/engine.ts'
import type { FeedSources } from './frontends/feeds/feed-endpoints.ts'
import type { LazyReleases } from './lazy-releases.ts'
import type { ServerOptions } from './options/server-options.ts'
import { presenceReport } from './releases/server-presence.ts'
import { isCloudPath } from './repository/cloud/cloud-location.ts'
import { localCopies } from './repository/cloud/local-copies.ts'
import { openCloudStore } from './repository/cloud/open-cloud-store.ts'
import { lintRepositories, type LintReport } from './repository/lint-repository.ts'
import { configFileName } from './repository/model-repository.ts'
import { LocalStore } from './repository/local-store.ts'
import { LiveFigures } from './telemetry/live-figures.ts'
import type { ModelLedger } from './telemetry/model-ledger.ts'
import { processCounters } from './telemetry/process-counters.ts'
import type { TraceHistory } from './telemetry/trace-history.ts'
import type { ConnectionSlots } from './transport/connection-slots.ts'

export type FeedParts = {
  readonly clock: Clock
  readonly engine: Engine
  readonly ledger: ModelLedger
  readonly logHistory?: LogHistory
  readonly traceHistory: TraceHistory
  readonly connectionSlots: ConnectionSlots
  readonly self: ServerSelf
  readonly rollouts: LazyReleases
}

export type OpenedFeeds = { readonly sources: FeedSources; close(): void }

/** Nothing is measured before somebody asks. */
export function openFeeds(parts: FeedParts, options: ServerOptions): OpenedFeeds {
  const { clock, engine, ledger, logHistory, traceHistory, connectionSlots, self, rollouts } = parts
  const live = new LiveFigures({
    clock,
    entries: () => ledger.entries(),
    process: processCounters(() => connectionSlots.openCount),
  })
  const { name, version } = engine.serverMetadata()
  const sources: FeedSources = {
    clock,
    live,
    logs: logHistory ?? null,
    traces: traceHistory,
    findings: findingsOf(sharedFindings(clock, engine, options.engine), options.engine),
    fleet: async () => (await rollouts.opened?.presence?.report()) ?? presenceReport(describeServer(self), [], null),
    facts: () => ({
      name,
      version,
      model_control: options.engine.modelControlMode,
      access: options.process.accessConfigFile !== '',
      cost: options.process.costPerHour > 0,
      jobs: options.jobs !== null,
      faults: options.process.allowsFaultInjection,
    }),
  }
  return {
    sources,
    close: () => live.close(),
  }
}

/** A check takes as long as the repositories are large: its answer serves everybody until a model changes or the time is over. */
const findingsKeptNs = 10e9
/** A longer configuration is not shown with its findings. */
const configTextBytes = 256 * 1024

type Findings = LintReport & { readonly checked: string }

/** Of all models; of one, with its configuration as it is written where the repository is a folder. */
const findingsOf =
  (check: () => Promise<Findings>, settings: ServerOptions['engine']) =>
  async (model: string): Promise<unknown> => {
    const report = await check()
    if (model === '') return report
    if (!report.models.includes(model)) {
      throw ServerError.withoutStack('NOT_FOUND', `no repository of this server has a model '${model}'`)
    }
    const findings = report.findings.filter((finding) => finding.model === model)
    return { ...report, models: [model], findings, config: await configText(settings, model) }
  }

async function configText({ modelRepositories }: ServerOptions['engine'], model: string): Promise<object | null> {
  const store = new LocalStore()
  for (const root of modelRepositories.filter((each) => !isCloudPath(each))) {
    const text = await store.readText(root, join(model, configFileName), configTextBytes).catch(() => null)
    if (text !== null) return { file: join(root, model, configFileName), text }
  }
  return null
}

function sharedFindings(clock: Clock, engine: Engine, settings: ServerOptions['engine']): () => Promise<Findings> {
  let kept: { readonly revision: number; readonly atNs: number; readonly report: Promise<Findings> } | null = null
  let running: Promise<Findings> | null = null
  return () => {
    const nowNs = clock.nowNs()
    if (running !== null) return running
    if (kept !== null && kept.revision === engine.revision && nowNs - kept.atNs < findingsKeptNs) return kept.report
    const report = checkRepositories(clock, settings).finally(() => (running = null))
    running = report
    kept = { revision: engine.revision, atNs: nowNs, report }
    return report
  }
}

async function checkRepositories(clock: Clock, settings: ServerOptions['engine']): Promise<Findings> {
  const store = openCloudStore({ clock, log: silentLog, environment: process.env }, settings)
  const inspector = createModelInspector(settings)
  try {
    const copies = await localCopies(store, settings.modelRepositories)
    const report = await lintRepositories({ store: new LocalStore(), inspector }, settings, [...copies.keys()])
    return { checked: new Date(clock.wallMs()).toISOString(), ...report }
  } finally {
    inspector.close()
    await store.close()
  }
}
