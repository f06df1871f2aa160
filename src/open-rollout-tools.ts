// What is there without any rollout: where requests come from, and faults.

import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { CallFacts } from './access/call-facts.ts'
import type { Caller } from './access/caller.ts'
import { parseProxies } from './access/caller-address.ts'
import { clientCountry } from './access/client-country.ts'
import type { Clock } from './base/clock.ts'
import { messageOf, ServerError } from './base/server-error.ts'
import type { FaultDesk } from './frontends/rollouts/fault-endpoints.ts'
import { changeOrigin } from './model/change-origin.ts'
import type { FaultSource } from './model/fault.ts'
import type { ServerOptions } from './options/server-options.ts'
import type { AuditLog } from './telemetry/audit-log.ts'

export type RolloutTools = {
  readonly countryOf: (facts: CallFacts) => string
  /** Null without `--allow-fault-injection`. */
  readonly faultDesk: FaultDesk | null
  readonly faults: FaultSource | null
}

/** Throws ServerError when the database cannot be read. */
export async function openRolloutTools(
  { clock, audit }: { readonly clock: Clock; readonly audit: AuditLog },
  options: ServerOptions['process'],
): Promise<RolloutTools> {
  const { countryHeader: header, trustedProxies, geoipFile, allowsFaultInjection } = options
  const lookUp = geoipFile === '' ? null : await openCountries(geoipFile)
  const countryOf = clientCountry({ header, lookUp, trusted: parseProxies(trustedProxies) })
  if (!allowsFaultInjection) return { countryOf, faultDesk: null, faults: null }
  const { FaultBook } = await import('./rollouts/fault-book.ts')
  const { RandomDraws } = await import('./rollouts/assignment.ts')
  const book = new FaultBook(clock, new RandomDraws(randomInt(2 ** 32)), countryOf)
  const recordFault = (caller: Caller, model: string, what: string): void =>
    audit.record({
      timeMs: clock.wallMs(),
      action: 'rollout.fault',
      model,
      versions: [],
      outcome: 'ok',
      reason: what,
      durationMs: 0,
      override: '',
      origin: changeOrigin('http', { key: caller.principal }),
      contentHash: () => Promise.resolve(null),
    })
  return { countryOf, faultDesk: { book, audit: recordFault }, faults: book }
}

/** The package that reads the database is optional: it is looked for only where there is a database. */
async function openCountries(file: string): Promise<(address: string) => string> {
  const bytes = await readFile(file).catch((reason: unknown) => {
    throw new ServerError('INVALID_ARG', `--geoip-database: cannot read '${file}': ${messageOf(reason)}`)
  })
  const { Reader } = await import('mmdb-lib').catch(() => {
    throw new ServerError('INVALID_ARG', "--geoip-database needs the package 'mmdb-lib': npm install mmdb-lib")
  })
  type Place = { readonly country?: { readonly iso_code?: string } }
  try {
    const reader = new Reader(bytes)
    return (address) => (reader.get(address) as Place | null)?.country?.iso_code ?? ''
  } catch (reason) {
    throw new ServerError('INVALID_ARG', `--geoip-database: '${file}' is no MaxMind database: ${messageOf(reason)}`)
  }
}
