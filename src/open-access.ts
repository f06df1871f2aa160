// `--access-config` as the server has it: the rules, and what is put on record about them.

import type { AccessService } from './access/access-service.ts'
import type { KeyRecord } from './access/key-file.ts'
import type { Clock } from './base/clock.ts'
import type { ClosingStack } from './base/closing-stack.ts'
import type { Log } from './base/log.ts'
import { changeOrigin } from './model/change-origin.ts'
import type { AuditLog } from './telemetry/audit-log.ts'

type OpenAccessDependencies = { readonly clock: Clock; readonly log: Log; readonly audit: AuditLog }

/** A refusal of the same caller is put on record once in this time. */
const refusalEveryNs = 1e9
/** At so many callers all are forgotten. */
const mostCallers = 1000

/** Null without `--access-config`: then the code of it is not read either. */
export async function openAccess(
  { clock, log, audit }: OpenAccessDependencies,
  { accessConfigFile: path, stateDirectory }: { readonly accessConfigFile: string; readonly stateDirectory: string },
  closing: ClosingStack,
): Promise<AccessService | null> {
  if (path === '') return null
  const { AccessService } = await import('./access/access-service.ts')
  const record = (action: `access.${string}`, reason: string, key: string, address = ''): void =>
    audit.record({
      timeMs: clock.wallMs(),
      action,
      model: '',
      versions: [],
      outcome: action === 'access.refused' ? 'failed' : 'ok',
      reason,
      durationMs: 0,
      override: '',
      origin: changeOrigin('access', { address, key }),
      contentHash: () => Promise.resolve(null),
    })
  const lastNs = new Map<string, number>()
  const service = await AccessService.open(
    {
      clock,
      log,
      stateDirectory,
      onRefusal: (facts, principal, { message }, nowNs) => {
        const who = principal === '' ? facts.peer : principal
        if (nowNs - (lastNs.get(who) ?? -Infinity) < refusalEveryNs) return
        if (lastNs.size >= mostCallers) lastNs.clear()
        lastNs.set(who, nowNs)
        const { action, model, peer } = facts
        record('access.refused', `${action}${model === '' ? '' : `@${model}`}: ${message}`, principal, peer)
      },
      onKeys: (before, after, by) => {
        for (const [action, key] of keyChanges(before, after)) {
          record(`access.key.${action}`, `key ${key.id}${by === '' ? '' : ` by '${by}'`}`, key.name)
        }
      },
    },
    path,
  )
  return closing.add(service, (opened) => opened.close())
}

function keyChanges(
  before: readonly KeyRecord[],
  after: readonly KeyRecord[],
): ['created' | 'revoked' | 'changed' | 'removed', KeyRecord][] {
  const [old, now] = [new Map(before.map((key) => [key.id, key])), new Map(after.map((key) => [key.id, key]))]
  const changes: ReturnType<typeof keyChanges> = []
  for (const key of after) {
    const known = old.get(key.id)
    if (known === undefined) changes.push(['created', key])
    else if (known.revokedMs === null && key.revokedMs !== null) changes.push(['revoked', key])
    else if (JSON.stringify(known) !== JSON.stringify(key)) changes.push(['changed', key])
  }
  for (const key of before) if (!now.has(key.id)) changes.push(['removed', key])
  return changes
}
