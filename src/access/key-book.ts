// Makes, revokes and rotates API keys, for `galatea keys` and for `/v2/access/keys`. A key is shown once; the file has its hash.

import { ServerError } from '../base/server-error.ts'
import { isAccessName, nameRule } from './access-config.ts'
import { apiKeyText, createApiKey, parseApiKey, parseKeyId, secretHash, type ApiKey } from './api-key.ts'
import { changeKeyFile, isNetwork, readKeyFile, type KeyRecord } from './key-file.ts'

/** What a key shall be. Texts are '' where nothing was said. */
export type KeyWish = {
  readonly name: string
  readonly role: string
  readonly tenant: string
  readonly addresses: readonly string[]
  /** `90d`; '' : never. */
  readonly expires: string
}

export type MadeKey = { readonly key: string; readonly record: KeyRecord }

/** A key as it may be shown again. */
export type ListedKey = Omit<KeyRecord, 'hash'> & { readonly state: KeyState }
type KeyState = 'active' | 'revoked' | 'expired'

const unitMs: Readonly<Record<string, number>> = { s: 1e3, m: 60e3, h: 3600e3, d: 86_400e3 }

export class KeyBook {
  readonly #path: string
  readonly #roles: readonly string[]

  /** `roles` are those of the file that names the keys. */
  constructor(path: string, roles: Iterable<string>) {
    this.#path = path
    this.#roles = [...roles]
  }

  async list(nowMs: number): Promise<ListedKey[]> {
    const records = await readKeyFile(this.#path)
    return records.map(({ hash: _hash, ...record }) => ({ ...record, state: stateOf(record, nowMs) }))
  }

  /** Throws ServerError when the wish makes no sense. */
  async create({ name, role, tenant, addresses, expires }: KeyWish, nowMs: number): Promise<MadeKey> {
    if (!isAccessName(name)) throw wrong(`the name must be ${nameRule}, got '${cut(name)}'`)
    if (tenant !== '' && !isAccessName(tenant)) throw wrong(`the tenant must be ${nameRule}, got '${cut(tenant)}'`)
    if (role !== '' && !this.#roles.includes(role)) {
      throw wrong(`there is no role '${cut(role)}'; there is ${this.#roles.join(', ') || 'none'}`)
    }
    const bad = addresses.find((address) => !isNetwork(address))
    if (bad !== undefined) throw wrong(`an address must be an address or a network, as 10.0.0.0/8, got '${cut(bad)}'`)
    const expiresMs = endOf('expires', expires, nowMs)
    const key = createApiKey()
    const record: KeyRecord = { id: key.id, name, hash: hashOf(key), role, tenant, addresses, createdMs: nowMs, expiresMs, revokedMs: null } // prettier-ignore
    await changeKeyFile(this.#path, (records) => ({ records: [...records, record], result: null }))
    return { key: apiKeyText(key), record }
  }

  /** `wanted` is the id of a key, a whole key, or the name of its callers: then all of that name. */
  async revoke(wanted: string, nowMs: number): Promise<readonly KeyRecord[]> {
    return changeKeyFile(this.#path, (records) => {
      const found = liveKeys(records, wanted, nowMs)
      const ids = new Set(found.map(({ id }) => id))
      const left = records.map((record) => (ids.has(record.id) ? { ...record, revokedMs: nowMs } : record))
      return { records: left, result: found }
    })
  }

  /** The new key takes the place of the newest one of that name; the old ones end after the overlap. */
  async rotate(wanted: string, overlap: string, expires: string, nowMs: number): Promise<MadeKey> {
    const endMs = nowMs + durationMs('overlap', overlap, 0)
    const expiresMs = endOf('expires', expires, nowMs)
    const key = createApiKey()
    const record = await changeKeyFile(this.#path, (records) => {
      const found = liveKeys(records, wanted, nowMs)
      const newest = found.reduce((a, b) => (a.createdMs >= b.createdMs ? a : b))
      const ids = new Set(found.map(({ id }) => id))
      const added: KeyRecord = { ...newest, id: key.id, hash: hashOf(key), createdMs: nowMs, expiresMs }
      const kept = records.map((one) =>
        ids.has(one.id) ? { ...one, expiresMs: Math.min(one.expiresMs ?? Infinity, endMs) } : one,
      )
      return { records: [...kept, added], result: added }
    })
    return { key: apiKeyText(key), record }
  }
}

const wrong = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)
const cut = (text: string): string => text.slice(0, 80)
const hashOf = ({ secret }: ApiKey): string => secretHash(secret).toString('hex')

function liveKeys(records: readonly KeyRecord[], wanted: string, nowMs: number): KeyRecord[] {
  const id = parseApiKey(wanted)?.id ?? parseKeyId(wanted)
  const named = records.filter((record) => record.id === id || record.name === wanted)
  const live = named.filter((record) => stateOf(record, nowMs) === 'active')
  if (live.length > 0) return live
  // A whole key must not stand in a message.
  const shown = parseApiKey(wanted) === null ? cut(wanted) : String(id)
  if (named.length > 0) throw wrong(`every key of '${shown}' is revoked or expired`)
  throw ServerError.withoutStack('NOT_FOUND', `there is no key '${shown}'; see 'galatea keys list'`)
}

const stateOf = ({ revokedMs, expiresMs }: Omit<KeyRecord, 'hash'>, nowMs: number): KeyState =>
  revokedMs !== null ? 'revoked' : expiresMs !== null && expiresMs <= nowMs ? 'expired' : 'active'

const endOf = (option: string, text: string, nowMs: number): number | null =>
  text === '' ? null : nowMs + durationMs(option, text, 1)

function durationMs(option: string, text: string, least: number): number {
  const [, count, unit = ''] = /^([0-9]{1,6})(s|m|h|d)$/.exec(text) ?? []
  const ms = Number(count) * (unitMs[unit] ?? NaN)
  if (ms >= least) return ms
  throw wrong(`'${option}' must be a time, as 12h or 90d, got '${cut(text)}'`)
}
