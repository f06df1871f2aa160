// Rollouts of several servers in one Redis. States change by compare-and-set on their generation; sums of servers lie beside each
// other and are added by whoever judges.

import { answerInTime } from '../base/answer-in-time.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { boundAnswers, type RedisClient as Client } from '../base/redis-client.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { FeedbackEntry } from '../rollouts/feedback.ts'
import type { ModelPins, PinChange, ReleaseRecord } from './release-record.ts'
import { longestSharedText, readHeardFeedback, readSharedPins, readSharedRecord } from './shared-values.ts'
import { generationOf } from './state-sharing.ts'
import type { PresenceStore } from './server-presence.ts'
import type { ServerEvidence, SharedRollouts } from './shared-rollouts.ts'

const prefix = 'galatea:rollout'
/** Names of rollouts and their generations. */
const indexKey = `${prefix}s`
/** By model and part, parted by a line break: no name has one. Servers that change different parts do not undo each other. */
const pinsKey = 'galatea:pins'
const pinRevisionKey = 'galatea:pins:revision'
/** Labels and scores of requests that the server which got them did not answer. Nothing is kept: who is away misses them. */
const feedbackChannel = 'galatea:feedback'
const leaderMs = 10_000
const evidenceSecs = 3600
/** A server that has said nothing for so long takes no part any more. */
const silentMs = 10_000
/** An answer that takes longer counts as none. */
const commandTimeoutMs = 2000

/** KEYS: the rollout, the index. ARGV: expected and new generation, record, name, model. Gives '' or the record that is kept. */
const compareAndSet = `
local kept = redis.call('HGET', KEYS[1], 'generation')
if (kept or '0') ~= ARGV[1] then return redis.call('HGET', KEYS[1], 'record') or '' end
redis.call('HSET', KEYS[1], 'generation', ARGV[2], 'record', ARGV[3], 'model', ARGV[5])
redis.call('HSET', KEYS[2], ARGV[4], ARGV[2])
redis.call('PUBLISH', KEYS[2], ARGV[4])
return ''
`
/** Takes or keeps the lead: one server at a time. */
const takeLead = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end
return 0
`

/** When each server was heard, and what it said. */
const seenKey = 'galatea:servers:seen'
const saidKey = 'galatea:servers:said'
/** A server that was not heard for so long is forgotten. */
const forgottenSecs = 3600
/** The servers that are kept, those that were heard last. */
const mostServers = 256
/** KEYS: seen, said. ARGV: url, text, seconds until a server is forgotten, most servers. The clock is that of Redis. */
const announce = `
local now = tonumber(redis.call('TIME')[1])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[3]))
for _, url in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1 - tonumber(ARGV[4]))) do table.insert(gone, url) end
for _, url in ipairs(gone) do
  redis.call('ZREM', KEYS[1], url)
  redis.call('HDEL', KEYS[2], url)
end
return 0
`
/** What one server said, and all together, as far as they are read: others may write there, too. */
const longestSaid = 512 * 1024
const mostSaidBytes = 16 * 1024 * 1024
/** ARGV: most servers, longest text, most bytes. Gives url, seconds since it was heard, and what it said, one after the other. */
const readAnnounced = `
local now = tonumber(redis.call('TIME')[1])
local seen = redis.call('ZRANGE', KEYS[1], -tonumber(ARGV[1]), -1, 'WITHSCORES')
local found, left = {}, tonumber(ARGV[3])
for i = 1, #seen, 2 do
  table.insert(found, seen[i])
  table.insert(found, tostring(now - tonumber(seen[i + 1])))
  local length = redis.call('HSTRLEN', KEYS[2], seen[i])
  local isRead = length <= tonumber(ARGV[2]) and length <= left
  if isRead then left = left - length end
  table.insert(found, isRead and redis.call('HGET', KEYS[2], seen[i]) or '')
end
return found
`

/** Names of rollouts, and pins, that are read. */
const mostShared = 10_000

const none: readonly ServerEvidence[] = []

type FeedbackMessage = { readonly server: string; readonly model: string; readonly entries: readonly FeedbackEntry[] }

type RedisParts = {
  readonly log: Log
  readonly clock: Clock
  /** Another server got feedback for requests that it did not answer. */
  readonly heardFeedback: (model: string, entries: readonly FeedbackEntry[]) => void
}

export class RedisRollouts implements SharedRollouts, PresenceStore {
  readonly #log: Log
  readonly #client: Client
  readonly #connected: Promise<void>
  readonly #server: string
  readonly #clock: Clock
  readonly where: string
  readonly #leads = new Set<string>()
  /** What other servers have seen, with the stamp of what was read. */
  readonly #others = new Map<string, readonly { readonly stamp: string; readonly evidence: ServerEvidence | null }[]>()
  readonly #evidence = new Map<string, readonly ServerEvidence[]>()
  readonly #counts = new Map<string, number>()
  readonly #reports = new Map<string, ServerEvidence>()
  /** What the store has of this server. */
  readonly #sent = new Map<string, ServerEvidence>()
  /** Grows with everything that this server sends; another number after each start. */
  #stamp: number
  #isAway = true
  /** Names whose record cannot be read: the log has said so. */
  readonly #unread = new Set<string>()
  #subscriber: Client | null = null

  /** `server` is the same after a restart. `heard` is called when another server has changed a rollout. */
  static async open(parts: RedisParts, url: string, server: string, heard: () => void): Promise<RedisRollouts> {
    const redis = await import('@redis/client').catch((reason: unknown) => {
      const text = `--rollout-store=redis://… needs the package '@redis/client': run 'npm install @redis/client'`
      throw new ServerError('UNSUPPORTED', text, { cause: reason })
    })
    const reconnectStrategy = (attempts: number): number => Math.min(100 * 2 ** attempts, 2000)
    const make = (): Client =>
      redis.createClient({
        url,
        socket: { reconnectStrategy, connectTimeout: commandTimeoutMs },
        disableOfflineQueue: true,
        commandOptions: { timeout: commandTimeoutMs },
      }) as unknown as Client
    const makeBounded = (): Client => boundAnswers(make(), parts.clock, commandTimeoutMs * 1e6)
    const opened = new RedisRollouts(parts, makeBounded, new URL(url).host, server, heard)
    // A server that knows what the others serve loads the right versions at once. Without Redis it starts all the same.
    await answerInTime(parts.clock, commandTimeoutMs * 1e6, opened.#connected).catch(() => undefined)
    return opened
  }

  private constructor(
    { log, clock, heardFeedback }: RedisParts,
    make: () => Client,
    where: string,
    server: string,
    heard: () => void,
  ) {
    this.#log = log.from('redis-rollouts.ts')
    this.#clock = clock
    this.#server = server
    this.#stamp = clock.wallMs()
    this.where = where
    this.#client = make()
    this.#client.on('error', (reason: unknown) => this.#noteAway(reason))
    this.#client.on('ready', () => this.#noteBack())
    this.#connected = this.#client.connect().then(
      () => undefined,
      (reason: unknown) => this.#noteAway(reason),
    )
    const subscriber = make()
    this.#subscriber = subscriber
    subscriber.on('error', () => undefined)
    subscriber
      .connect()
      .then(() => subscriber.subscribe(indexKey, heard))
      .then(() => subscriber.subscribe(feedbackChannel, (text) => this.#hearFeedback(text, heardFeedback)))
      .catch(() => undefined)
  }

  get isAway(): boolean {
    return this.#isAway || !this.#client.isReady
  }

  isLeader(name: string): boolean {
    return !this.isAway && this.#leads.has(name)
  }

  others(name: string): readonly ServerEvidence[] {
    return this.#evidence.get(name) ?? none
  }

  serverCount(name: string): number {
    return Math.max(1, this.#counts.get(name) ?? 1)
  }

  async write(record: ReleaseRecord, expected: number): Promise<ReleaseRecord | null> {
    const { name, model } = record
    // Values of users lie beside the state, those of each server by themselves.
    const text = JSON.stringify({ ...record, evidence: {}, ...('goals' in record ? { goals: {} } : {}) })
    const kept = await this.#client.eval(compareAndSet, {
      keys: [`${prefix}:${name}`, indexKey],
      arguments: [String(expected), String(generationOf(record)), text, name, model],
    })
    return kept === '' ? null : (JSON.parse(kept as unknown as string) as ReleaseRecord)
  }

  report(name: string, evidence: ServerEvidence): void {
    this.#reports.set(name, evidence)
  }

  async exchange(names: readonly string[], known: ReadonlyMap<string, number>): Promise<readonly ReleaseRecord[]> {
    for (const name of names) await this.#exchangeOne(name)
    const count = await this.#client.hLen(indexKey)
    if (count > mostShared) throw new ServerError('UNAVAILABLE', `'${indexKey}' has ${count} names, at most ${mostShared} are read`) // prettier-ignore
    const generations = await this.#client.hGetAll(indexKey)
    const changed: ReleaseRecord[] = []
    for (const [name, generation] of Object.entries(generations)) {
      if (Number(generation) === (known.get(name) ?? 0)) continue
      const record = await this.#readRecord(name)
      if (record !== null) changed.push(record)
      else if (!this.#unread.has(name)) this.#log.warning(`rollout '${name.slice(0, 200)}' in Redis at ${this.where} cannot be read and is left out`) // prettier-ignore
      if (this.#unread.size > mostShared) this.#unread.clear()
      if (record === null) this.#unread.add(name)
      else this.#unread.delete(name)
    }
    this.#isAway = false
    return changed
  }

  async readPins(known: string): Promise<{ readonly revision: string; readonly pins: readonly ModelPins[] } | null> {
    const revision = (await this.#client.get(pinRevisionKey)) ?? ''
    if (revision === known) return null
    const count = await this.#client.hLen(pinsKey)
    if (count > mostShared) throw new ServerError('UNAVAILABLE', `'${pinsKey}' has ${count} values, at most ${mostShared} are read`) // prettier-ignore
    return { revision, pins: readSharedPins(await this.#client.hGetAll(pinsKey)) }
  }

  async writePins(model: string, change: PinChange): Promise<void> {
    const parts = Object.entries(change).map(([part, value]) => [`${model}\n${part}`, JSON.stringify(value)])
    await this.#client.hSet(pinsKey, Object.fromEntries(parts) as Record<string, string>)
    await this.#client.incr(pinRevisionKey)
    await this.#client.publish(indexKey, model)
  }

  sendFeedback(model: string, entries: readonly FeedbackEntry[]): boolean {
    if (this.isAway) return false
    const message: FeedbackMessage = { server: this.#server, model, entries }
    this.#client.publish(feedbackChannel, JSON.stringify(message)).catch((reason: unknown) => this.#noteAway(reason))
    return true
  }

  async announce(url: string, text: string): Promise<void> {
    await this.#client.eval(announce, {
      keys: [seenKey, saidKey],
      arguments: [url, text, String(forgottenSecs), String(mostServers)],
    })
  }

  async announced(): Promise<{ url: string; agoSecs: number; text: string }[]> {
    const found = (await this.#client.eval(readAnnounced, {
      keys: [seenKey, saidKey],
      arguments: [String(mostServers), String(longestSaid), String(mostSaidBytes)],
    })) as unknown as string[]
    return Array.from({ length: found.length / 3 }, (_, i) => ({
      url: found[3 * i] ?? '',
      agoSecs: Number(found[3 * i + 1]),
      text: found[3 * i + 2] ?? '',
    }))
  }

  async leave(url: string): Promise<void> {
    await this.#client.zRem(seenKey, url)
    await this.#client.hDel(saidKey, url)
  }

  #hearFeedback(text: string, heard: RedisParts['heardFeedback']): void {
    const message = readHeardFeedback(text)
    if (message !== null && message.server !== this.#server) heard(message.model, message.entries)
  }

  /** Null: what is there is no record. */
  async #readRecord(name: string): Promise<ReleaseRecord | null> {
    const key = `${prefix}:${name}`
    if (Number(await this.#client.hStrLen(key, 'record')) > longestSharedText) return null
    return readSharedRecord(name, (await this.#client.hGet(key, 'record')) ?? '')
  }

  async #exchangeOne(name: string): Promise<void> {
    const key = `${prefix}:${name}`
    const lead = await this.#client.eval(takeLead, {
      keys: [`${key}:leader`],
      arguments: [this.#server, String(leaderMs)],
    })
    if (lead === 1) this.#leads.add(name)
    else this.#leads.delete(name)
    const report = this.#reports.get(name)
    if (report !== undefined && report !== this.#sent.get(name)) {
      this.#sent.set(name, report)
      this.#stamp++
      await this.#client.set(`${key}:evidence:${this.#server}`, JSON.stringify(report), { EX: evidenceSecs })
    }
    await this.#client.hSet(`${key}:servers`, this.#server, `${this.#clock.wallMs()}:${this.#stamp}`)
    await this.#client.expire(`${key}:servers`, evidenceSecs)
    await this.#client.expire(`${key}:evidence:${this.#server}`, evidenceSecs)
    const servers = Object.entries(await this.#client.hGetAll(`${key}:servers`))
    this.#counts.set(
      name,
      servers.filter(([, seen]) => this.#clock.wallMs() - Number.parseInt(seen, 10) < silentMs).length,
    )
    await this.#readOthers(name, servers.filter(([server]) => server !== this.#server)) // prettier-ignore
  }

  /** The values of an experiment may be megabytes: only what has changed is read. */
  async #readOthers(name: string, servers: readonly (readonly [server: string, seen: string])[]): Promise<void> {
    const known = this.#others.get(name) ?? []
    const stamps = servers.map(([server, seen]) => `${server}:${seen.split(':')[1] ?? ''}`)
    if (stamps.length === known.length && stamps.every((stamp, i) => stamp === known[i]?.stamp)) return
    const found: { readonly stamp: string; readonly evidence: ServerEvidence | null }[] = []
    for (const [i, [server]] of servers.entries()) {
      const stamp = stamps[i] as string
      const same = known.find((one) => one.stamp === stamp)
      const text = same === undefined ? await this.#client.get(`${prefix}:${name}:evidence:${server}`) : null
      found.push(same ?? { stamp, evidence: text === null ? null : (JSON.parse(text) as ServerEvidence) })
    }
    this.#others.set(name, found)
    this.#evidence.set(name, found.flatMap(({ evidence }) => evidence ?? [])) // prettier-ignore
  }

  async close(): Promise<void> {
    for (const client of [this.#client, this.#subscriber]) {
      if (client === null) continue
      if (client.isReady) await client.close().catch(() => undefined)
      if (client.isOpen) client.destroy()
    }
  }

  #noteAway(reason: unknown): void {
    this.#sent.clear()
    if (this.#isAway) return
    this.#isAway = true
    this.#leads.clear()
    this.#log.warning(`Redis at ${this.where} is away, rollouts do not go on until it is back: ${messageOf(reason)}`)
  }

  #noteBack(): void {
    this.#isAway = false
    this.#log.info(`rollouts are shared through Redis at ${this.where}`)
  }
}
