// keys.json: the API keys of `--access-config`. The file has hashes only; `galatea keys` writes it.

import { open, readFile, stat, unlink } from 'node:fs/promises'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { isRunningStill, ownMark } from '../base/folder-owner.ts'
import { isStale, removeLeftLock } from '../base/left-lock.ts'
import { replaceFile } from '../base/replace-file.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { isAccessName } from './access-config.ts'

export type KeyRecord = {
  readonly id: string
  /** The name of the caller. Keys that replace each other have one name. */
  readonly name: string
  /** SHA-256 of the secret, in hexadecimal digits. */
  readonly hash: string
  /** A role of the file of `--access-config`; '' : only the grants count. */
  readonly role: string
  /** '' : the grants decide. */
  readonly tenant: string
  /** Addresses and networks that the key works from; empty: all. */
  readonly addresses: readonly string[]
  /** Milliseconds since 1970. */
  readonly createdMs: number
  /** Null: never. */
  readonly expiresMs: number | null
  readonly revokedMs: number | null
}

const largestFileBytes = 16 * 1024 * 1024
const mostKeys = 20_000
const mostAddresses = 100

/** A file that is not there has no keys. Throws ServerError that names the file and what is wrong. */
export async function readKeyFile(path: string): Promise<KeyRecord[]> {
  let text: string
  try {
    const { size } = await stat(path)
    if (size > largestFileBytes) throw new Error(`it has ${size} bytes, expected at most ${largestFileBytes}`)
    text = await readFile(path, 'utf8')
  } catch (reason) {
    if ((reason as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw new ServerError('UNAVAILABLE', `cannot read the keys in '${path}': ${messageOf(reason)}`, { cause: reason })
  }
  try {
    return parseKeys(JSON.parse(text))
  } catch (reason) {
    const fix = "restore the file, or remove it and make new keys with 'galatea keys create'"
    throw new ServerError('INVALID_ARG', `the keys in '${path}' are not usable: ${messageOf(reason)}; ${fix}`, {
      cause: reason,
    })
  }
}

function parseKeys(value: unknown): KeyRecord[] {
  const { keys } = (value ?? {}) as { readonly keys?: unknown }
  if (!Array.isArray(keys)) throw new Error("expected an object with a list 'keys'")
  if (keys.length > mostKeys) throw new Error(`it has ${keys.length} keys, expected at most ${mostKeys}`)
  const records = keys.map((key, index) => parseKey((key ?? {}) as Readonly<Record<string, unknown>>, index))
  const ids = new Set(records.map(({ id }) => id))
  if (ids.size !== records.length) throw new Error('two keys have one id')
  return records
}

function parseKey(key: Readonly<Record<string, unknown>>, index: number): KeyRecord {
  const need = (isRight: boolean, field: string, expected: string): void => {
    if (!isRight) throw new Error(`'keys.${index}.${field}' must be ${expected}`)
  }
  const { id, name, hash, role = '', tenant = '', addresses = [], created, expires = null, revoked = null } = key
  need(typeof id === 'string' && /^[a-z0-9]{10}$/.test(id), 'id', '10 letters and digits')
  need(typeof name === 'string' && isAccessName(name), 'name', 'a name')
  need(typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash), 'hash', '64 hexadecimal digits')
  need(role === '' || (typeof role === 'string' && isAccessName(role)), 'role', 'the name of a role')
  need(tenant === '' || (typeof tenant === 'string' && isAccessName(tenant)), 'tenant', 'the name of a tenant')
  const areAddresses = Array.isArray(addresses) && addresses.length <= mostAddresses && addresses.every(isNetwork)
  need(areAddresses, 'addresses', 'a list of addresses and networks')
  const times = [created, expires, revoked].map((time) =>
    time === null ? null : typeof time === 'string' ? Date.parse(time) : NaN,
  )
  need(times.every((time) => time === null || !Number.isNaN(time)) && times[0] !== null, 'created', 'times as 2026-01-31T12:00:00Z') // prettier-ignore
  const [createdMs = 0, expiresMs = null, revokedMs = null] = times
  return {
    id: id as string,
    name: name as string,
    hash: hash as string,
    role: role as string,
    tenant: tenant as string,
    addresses: addresses as string[],
    createdMs: createdMs as number,
    expiresMs,
    revokedMs,
  }
}

export function isNetwork(text: unknown): boolean {
  const [address = '', bits] = String(text).split('/')
  const most = isIP(address) === 4 ? 32 : 128
  return isIP(address) !== 0 && (bits === undefined || (/^[0-9]{1,3}$/.test(bits) && Number(bits) <= most))
}

const timeText = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

function keysText(records: readonly KeyRecord[]): string {
  const keys = records.map(({ createdMs, expiresMs, revokedMs, ...rest }) => ({
    ...rest,
    created: timeText(createdMs),
    expires: timeText(expiresMs),
    revoked: timeText(revokedMs),
  }))
  return `${JSON.stringify({ version: 1, keys }, null, 2)}\n`
}

/**
 * Reads the file, lets `change` make the new keys, and writes them. The new file takes the place of the old one in one step,
 * and only its owner may read it. Two commands at a time do not lose each other's keys.
 */
export async function changeKeyFile<T>(
  path: string,
  change: (records: readonly KeyRecord[]) => { readonly records: readonly KeyRecord[]; readonly result: T },
): Promise<T> {
  const lock = `${path}.lock`
  if (await isLeftBehind(lock)) await removeLeftLock(lock, () => isLeftBehind(lock))
  const held = await open(lock, 'wx', 0o600).catch((reason: unknown) => {
    const isHeld = (reason as NodeJS.ErrnoException).code === 'EEXIST'
    const text = isHeld ? `another command changes the keys; if there is none, try again in a minute` : messageOf(reason) // prettier-ignore
    throw new ServerError('UNAVAILABLE', `cannot change the keys in '${path}': ${text}`, { cause: reason })
  })
  try {
    await held.writeFile(`${hostname()} ${await ownMark()}`)
    const { records, result } = change(await readKeyFile(path))
    if (records.length > mostKeys) throw new ServerError('INVALID_ARG', `there can be at most ${mostKeys} keys`)
    await replaceFile(path, keysText(records))
    return result
  } finally {
    await held.close()
    await unlink(lock)
  }
}

/** The process that made the lock was killed. */
async function isLeftBehind(lock: string): Promise<boolean> {
  if (await isStale(lock)) return true
  const [host = '', ...mark] = (await readFile(lock, 'utf8').catch(() => '')).split(' ')
  return host === hostname() && mark.length > 1 && !(await isRunningStill(mark.join(' ')))
}
