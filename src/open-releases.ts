// Rollouts put together: where they are kept, who hears of them, and the control that runs them.

import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import type { CallFacts } from './access/call-facts.ts'
import type { AccessLog } from './base/access-log.ts'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { describeServer, type ServerSelf } from './describe-server.ts'
import { changeOrigin } from './model/change-origin.ts'
import type { ServerOptions } from './options/server-options.ts'
import { experimentTraffic } from './releases/experiment-traffic.ts'
import { FileReleaseStore } from './releases/file-release-store.ts'
import { ModelFleet, type FleetParts } from './releases/model-fleet.ts'
import { Outbox } from './releases/outbox.ts'
import { RedisRollouts } from './releases/redis-rollouts.ts'
import { ReleaseControl } from './releases/release-control.ts'
import type { ReleaseRecord } from './releases/release-record.ts'
import { releaseTraffic } from './releases/release-traffic.ts'
import { PresenceRounds } from './releases/server-presence.ts'
import { FeedbackDesk } from './rollouts/feedback-desk.ts'
import type { RolloutAudit } from './rollouts/rollout-state.ts'
import type { AuditLog } from './telemetry/audit-log.ts'

export type ReleaseDependencies = FleetParts & {
  readonly clock: Clock
  readonly log: Log
  readonly audit: AuditLog
  /** Left out: nothing is written about single requests. */
  readonly accessLog?: AccessLog
  /** What this server tells those that share its store. */
  readonly self: ServerSelf
}

export type OpenedReleases = {
  readonly control: ReleaseControl
  /** Takes labels and scores of answers. */
  readonly desk: FeedbackDesk
  /** The servers that share the store; null: there is none. */
  readonly presence: PresenceRounds | null
}

/** The control knows every rollout of before a restart. */
export async function openReleases(
  dependencies: ReleaseDependencies,
  options: ServerOptions['process'],
  countryOf: (facts: CallFacts) => string,
): Promise<OpenedReleases> {
  const { clock, audit } = dependencies
  const log = dependencies.log.from('open-releases.ts')
  const { stateDirectory, prometheusUrl, rolloutStoreUrl, notifySecretNames } = options
  const desk = new FeedbackDesk()
  const fleet = new ModelFleet(dependencies)
  const parts = { log, clock, heardFeedback: desk.takeForwarded.bind(desk) }
  const shared = rolloutStoreUrl === '' ? null : await RedisRollouts.open(parts, rolloutStoreUrl, serverName(stateDirectory), () => control.heard()) // prettier-ignore
  if (shared !== null) desk.forward = (model, entries) => shared.sendFeedback(model, entries)
  const control: ReleaseControl = new ReleaseControl({
    clock,
    log,
    fleet,
    store: new FileReleaseStore(log, stateDirectory),
    openTraffic: releaseTraffic({ ...dependencies, fleet, countryOf, desk }),
    openExperiment: experimentTraffic({ fleet, clock, countryOf, desk }),
    outbox: new Outbox(clock, log, { prometheusUrl, secrets: secretsOf(notifySecretNames) }),
    shared,
    audit: (record, action, by, why) => {
      recordMove(audit, clock, record, action, by, why)
      const write = alarming.has(action) ? 'warning' : 'info'
      log[write](`rollout '${record.name}' of model '${record.model}': ${action}${why === '' ? '' : `, ${why}`}`)
    },
  })
  await control.restore()
  const presence = shared === null ? null : new PresenceRounds({ clock, log, store: shared, describe: () => describeServer(dependencies.self) }) // prettier-ignore
  return { control, desk, presence }
}

/** A rollout comes over the network, or with a model: it sees no variable that the operator has not named. */
const secretsOf = (names: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, process.env[name] ?? '']))

/** Moves that an operator should see even where little is logged. */
const alarming: ReadonlySet<RolloutAudit> = new Set(['pause', 'rollback', 'fail'])

/** The same after a restart, so that the sums of this server are counted once. */
const serverName = (stateDirectory: string): string =>
  createHash('sha256').update(`${hostname()}\0${stateDirectory}`).digest('hex').slice(0, 16)

/** The reason has the evidence in numbers, as the judge worded it. */
function recordMove(
  audit: AuditLog,
  clock: Clock,
  { name, model, arms }: ReleaseRecord,
  action: string,
  by: string,
  why: string,
): void {
  const hashes = new Map(arms.map(({ version, hash }) => [version, hash]))
  audit.record({
    timeMs: clock.wallMs(),
    action: `rollout.${action}`,
    model,
    versions: [...hashes.keys()],
    outcome: action === 'fail' ? 'failed' : 'ok',
    reason: `${name}: ${why}`,
    durationMs: 0,
    override: '',
    origin: changeOrigin('rollout', { key: by }),
    contentHash: (version) => Promise.resolve(hashes.get(version) ?? null),
  })
}
