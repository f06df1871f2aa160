// Which servers share a store: each says every few seconds how it is, and reads what the others said when somebody asks.

import type { Cancel, Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf } from '../base/server-error.ts'
import { readPresence, type ServerPresence } from './shared-values.ts'

/** Where servers leave word. */
export interface PresenceStore {
  readonly isAway: boolean
  /** The store as people know it, without a password. */
  readonly where: string
  announce(url: string, text: string): Promise<void>
  /** The servers that were heard last, and how long ago. */
  announced(): Promise<readonly { readonly url: string; readonly agoSecs: number; readonly text: string }[]>
  leave(url: string): Promise<void>
}

type HeardServer = ServerPresence & { readonly agoSecs: number; readonly isThis: boolean }

const everyNs = 5e9
const longTextCharacters = 64 * 1024
/** A server that has said nothing for so long is shown as silent. */
const silentSecs = 15

type Parts = {
  readonly clock: Clock
  readonly log: Log
  readonly store: PresenceStore
  /** Null: the ports are not open yet. */
  readonly describe: () => ServerPresence | null
}

export class PresenceRounds {
  readonly #parts: Parts
  readonly #log: Log
  #cancel: Cancel = () => undefined
  #isClosed = false
  #url = ''
  #running: Promise<void> = Promise.resolve()

  constructor(parts: Parts) {
    this.#parts = parts
    this.#log = parts.log.from('server-presence.ts')
  }

  start(): void {
    this.#running = this.#announce()
    this.#cancel = this.#parts.clock.after(this.#url === '' ? everyNs / 10 : everyNs, () => {
      if (!this.#isClosed) this.start()
    })
  }

  /** A server that ends takes its word back, so that the others do not wait for it. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel()
    await this.#running
    if (this.#url !== '') await this.#parts.store.leave(this.#url).catch(() => undefined)
  }

  async report(): Promise<object> {
    const { store, describe } = this.#parts
    const own = describe()
    const heard = await store.announced().catch(() => null)
    const others: HeardServer[] = []
    for (const { url, agoSecs, text } of heard ?? []) {
      // Another release of the program may have written something else. Others are served between two long texts.
      const said = url === own?.url ? null : readPresence(url, text)
      if (said !== null) others.push({ ...said, agoSecs, isThis: false })
      if (text.length > longTextCharacters) await new Promise((resolve) => setImmediate(resolve))
    }
    return presenceReport(own, others, { where: store.where, isAway: heard === null })
  }

  async #announce(): Promise<void> {
    const { store, describe } = this.#parts
    const own = store.isAway ? null : describe()
    if (own === null) return
    this.#url = own.url
    await store.announce(own.url, JSON.stringify(own)).catch((reason: unknown) => {
      this.#log.verbose(`the other servers were not told how this one is: ${messageOf(reason)}`)
    })
  }
}

/** For who stands alone `store` is null. */
export function presenceReport(
  own: ServerPresence | null,
  others: readonly HeardServer[],
  store: { readonly where: string; readonly isAway: boolean } | null,
): object {
  const servers = [...(own === null ? [] : [{ ...own, agoSecs: 0, isThis: true }]), ...others]
  const isSilent = ({ agoSecs }: HeardServer): boolean => agoSecs > silentSecs
  return {
    store: store === null ? null : { at: store.where, away: store.isAway },
    servers: servers.map((server) => ({
      url: server.url,
      this: server.isThis,
      state: isSilent(server) ? 'silent' : server.isReady ? 'ready' : 'not ready',
      reason: isSilent(server) ? `nothing was heard of it for ${server.agoSecs} s` : server.reason,
      pressure: server.pressure,
      version: server.version,
      started: new Date(server.startedMs).toISOString(),
      seen_seconds_ago: server.agoSecs,
      models: Object.entries(server.models).map(([name, versions]) => ({ name, versions })),
      ...(server.untold === 0 ? {} : { models_left_out: server.untold }),
    })),
    models: modelRows(servers.filter((server) => !isSilent(server))),
  }
}

/** Every model with the servers of each version. */
function modelRows(servers: readonly HeardServer[]): object[] {
  const held = new Map<string, Map<string, string[]>>()
  for (const { url, models } of servers) {
    for (const [name, versions] of Object.entries(models)) {
      const byVersion = held.get(name) ?? new Map<string, string[]>()
      held.set(name, byVersion)
      for (const version of versions) byVersion.set(version, [...(byVersion.get(version) ?? []), url])
    }
  }
  const sorted = [...held].sort(([a], [b]) => (a < b ? -1 : 1))
  return sorted.map(([name, versions]) => ({
    name,
    differs: [...versions.values()].some((urls) => urls.length !== servers.length),
    servers: new Set([...versions.values()].flat()).size,
    versions: [...versions].map(([version, urls]) => ({ version, servers: urls })),
  }))
}
