// What a server tells of itself to other servers and to the page of its fleet.

import { hostname } from 'node:os'
import type { Clock } from './base/clock.ts'
import { hostAndPort, isEveryAddress } from './base/host-and-port.ts'
import type { Engine } from './engine/engine.ts'
import type { LazyLoadSource } from './lazy-load-source.ts'
import type { ServerPresence } from './releases/shared-values.ts'

/** Filled while the server opens. */
export type ServerSelf = {
  readonly clock: Clock
  readonly engine: Engine
  readonly load: LazyLoadSource
  /** True: clients come by TLS. */
  readonly isSecure: boolean
  /** Null: the port is not open yet, or there is none. */
  http: { readonly address: string; readonly port: number } | null
}

/** The list of a server with more models ends there. */
const mostModelsTold = 2000
const longestReason = 500

/** Null: there is no HTTP port, or not yet. */
export function describeServer({ clock, engine, load, isSecure, http }: ServerSelf): ServerPresence | null {
  if (http === null) return null
  const { address, port } = http
  const { isReady, reasons } = engine.health()
  const held = new Map<string, string[]>()
  for (const { name, version } of engine.models()) held.set(name, [...(held.get(name) ?? []), version])
  return {
    url: `${isSecure ? 'https' : 'http'}://${hostAndPort({ address: isEveryAddress(address) ? hostname() : address, port })}`,
    version: engine.serverMetadata().version,
    startedMs: clock.wallMs() - Math.round(process.uptime() * 1000),
    isReady,
    reason: reasons.join('; ').slice(0, longestReason),
    pressure: load.figures()?.server ?? null,
    models: Object.fromEntries([...held].slice(0, mostModelsTold)),
    untold: Math.max(0, held.size - mostModelsTold),
  }
}
