// Answers kept in Redis, where several servers share them and they outlive a restart. Redis is never in the way: while it
// is away, slow or overloaded, every lookup is a miss and requests run as without a cache.

import { answerInTime } from '../../base/answer-in-time.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { connectRedis, type RedisClient as Client, type RedisModule } from '../../base/redis-client.ts'
import type { RedisAddress } from '../../base/redis-address.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { ContentIndex } from '../../repository/content-index.ts'
import { versionContentHash } from '../../repository/version-content.ts'
import { decodeAnswer, encodeAnswer } from './cached-answer-bytes.ts'
import { CacheTimings, type CachedAnswer, type CachedModel, type ResponseCache } from '../../model/response-cache.ts'

export type RedisCacheOptions = RedisAddress & {
  /** 0 waits for ever. */
  readonly connectTimeoutMs: number
  /** A lookup that takes longer is a miss; 0 waits for ever. */
  readonly socketTimeoutMs: number
  readonly poolSize: number
  /** 0: an answer stays until Redis itself evicts it. */
  readonly ttlSecs: number
}

export type RedisCacheDependencies = {
  readonly clock: Clock
  readonly log: Log
  /** Unique to this run of the server. */
  readonly runId: string
  /** Knows files that were read already. */
  readonly contents?: ContentIndex
}

const maxAnswerBytes = 64 * 2 ** 20
/** Written but not yet taken by Redis. What comes on top is not kept: a slow Redis must not fill this server's memory. */
const maxUnsentBytes = 64 * 2 ** 20
const maxLookups = 4096
/** Answers that wait to be written have so long at an exit. */
const closeTimeoutNs = 2e9

export class RedisResponseCache implements ResponseCache {
  readonly timings = new CacheTimings()
  readonly #clock: Clock
  readonly #log: Log
  readonly #runId: string
  readonly #contents: ContentIndex
  readonly #options: RedisCacheOptions
  readonly #clients: Client[]
  #nextClient = 0
  #isAway = false
  #lookupsUnderWay = 0
  #unsentBytes = 0
  #lookupCount = 0
  #hitCount = 0
  #ensembleCount = 0

  // The exporter of Redis reports these.
  readonly maxBytes = 0
  readonly byteSize = 0
  readonly entryCount = 0
  readonly evictionCount = 0

  /** Throws when the client library is missing. It connects on its own, now and again whenever the connection is lost. */
  static async open(dependencies: RedisCacheDependencies, options: RedisCacheOptions): Promise<RedisResponseCache> {
    const redis = await import('@redis/client').catch((reason: unknown) => {
      const text = `--cache-config=redis needs the package '@redis/client': run 'npm install @redis/client'`
      throw new ServerError('UNSUPPORTED', text, { cause: reason })
    })
    return new RedisResponseCache(dependencies, options, redis)
  }

  private constructor(dependencies: RedisCacheDependencies, options: RedisCacheOptions, redis: RedisModule) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log.from('redis-response-cache.ts')
    this.#runId = dependencies.runId
    this.#contents = dependencies.contents ?? new ContentIndex()
    this.#options = options
    this.#clients = Array.from({ length: options.poolSize }, () => this.#connect(redis))
  }

  get lookupCount(): number {
    return this.#lookupCount
  }

  get hitCount(): number {
    return this.#hitCount
  }

  /**
   * Equal for equal files and configuration, so that servers share answers and a changed model has none. The answers of
   * an ensemble depend on other models, which its own files do not show: its prefix is new with each load.
   */
  async prefixFor({ config, files }: CachedModel): Promise<string> {
    const isEnsemble = config.ensembleScheduling !== null
    const content = isEnsemble
      ? `${this.#runId}-${++this.#ensembleCount}`
      : await versionContentHash(this.#contents, config, files)
    return `galatea:${config.name}:${files.version}:${content}:`
  }

  lookup(key: string): CachedAnswer | null | Promise<CachedAnswer | null> {
    this.#lookupCount++
    const client = this.#readyClient()
    if (client === null || this.#lookupsUnderWay >= maxLookups) return null
    return this.#ask(client, key)
  }

  insert(key: string, response: InferenceResponse): string {
    const client = this.#readyClient()
    if (client === null) return ''
    const byteSize = response.outputs.reduce((sum, output) => sum + output.bytes.byteLength, 0)
    if (byteSize > maxAnswerBytes) return `the answer has ${byteSize} bytes, and at most ${maxAnswerBytes} are kept`
    if (this.#unsentBytes + byteSize > maxUnsentBytes) return ''
    const bytes = encodeAnswer(response)
    const { ttlSecs } = this.#options
    this.#unsentBytes += byteSize
    client
      .set(key, bytes, ttlSecs > 0 ? { EX: ttlSecs } : {})
      .catch((reason: unknown) => this.#noteFailure('keeping an answer', reason))
      .finally(() => (this.#unsentBytes -= byteSize))
    return ''
  }

  /** Nothing is dropped: other servers may use the answers, and so may this one after its next start. */
  dropPrefix(): void {}

  async close(): Promise<void> {
    // Closing waits for answers that are due.
    const closed = this.#clients.filter(({ isReady }) => isReady).map((client) => client.close())
    await Promise.allSettled(closed.map((one) => answerInTime(this.#clock, closeTimeoutNs, one)))
    for (const client of this.#clients) if (client.isOpen) client.destroy()
  }

  async #ask(client: Client, key: string): Promise<CachedAnswer | null> {
    this.#lookupsUnderWay++
    const { socketTimeoutMs } = this.#options
    const late = Promise.withResolvers<null>()
    const stopTimer = socketTimeoutMs > 0 ? this.#clock.after(socketTimeoutMs * 1e6, () => late.resolve(null)) : null
    try {
      const asked = client.get(key)
      // It may fail after the lookup has ended as a miss; that failure must not end the process.
      asked.catch(() => undefined)
      const found = (await Promise.race([asked, late.promise])) as Buffer | null
      const answer = found === null ? null : decodeAnswer(found)
      if (answer !== null) this.#hitCount++
      return answer
    } catch (reason) {
      this.#noteFailure('a lookup', reason)
      return null
    } finally {
      stopTimer?.()
      this.#lookupsUnderWay--
    }
  }

  #connect(redis: RedisModule): Client {
    return connectRedis(redis, this.#options, this.#options.connectTimeoutMs, {
      onAway: (reason) => this.#noteAway(reason),
      onBack: () => this.#noteBack(),
    })
  }

  #readyClient(): Client | null {
    this.#nextClient = (this.#nextClient + 1) % this.#clients.length
    const client = this.#clients[this.#nextClient]
    return client?.isReady === true ? client : null
  }

  #noteAway(reason: unknown): void {
    if (this.#isAway) return
    this.#isAway = true
    const { host, port } = this.#options
    this.#log.warning(`Redis at ${host}:${port} is away, requests run without the cache: ${messageOf(reason)}`)
  }

  #noteBack(): void {
    const { host, port } = this.#options
    this.#log.info(`connected to Redis at ${host}:${port}`)
    this.#isAway = false
  }

  #noteFailure(what: string, reason: unknown): void {
    this.#log.verbose(`${what} failed in Redis: ${messageOf(reason)}`)
  }
}
