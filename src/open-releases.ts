// Rollouts put together: where they are kept, who hears of them, and the control that runs them.

import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import type { ServerOptions } from './options/server-options.ts'
import { FileReleaseStore } from './releases/file-release-store.ts'
import { ModelFleet, type FleetParts } from './releases/model-fleet.ts'
import { ReleaseControl } from './releases/release-control.ts'
import { releaseTraffic } from './releases/release-traffic.ts'
import type { AuditLog } from './telemetry/audit-log.ts'

type ReleaseDependencies = FleetParts & { readonly clock: Clock; readonly log: Log; readonly audit: AuditLog }

/** To be called before the models are loaded: from then on the Engine asks the control which versions to load. */
export async function openReleases(
  dependencies: ReleaseDependencies,
  { stateDirectory }: ServerOptions['process'],
): Promise<ReleaseControl> {
  const { clock, log, engine } = dependencies
  const control = new ReleaseControl({
    clock,
    log,
    fleet: new ModelFleet(dependencies),
    store: new FileReleaseStore(log, stateDirectory),
    openTraffic: releaseTraffic({ engine, clock, countryOf: () => '' }),
    audit: () => undefined,
    notify: () => undefined,
    askWebhook: () => Promise.resolve({ verdict: 'unsure', why: 'webhooks are not asked yet' }),
  })
  await control.restore()
  engine.setVersionRule(control)
  return control
}
