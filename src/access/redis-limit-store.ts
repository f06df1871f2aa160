// Limits that several servers share through Redis. While Redis is away each server counts for itself, and the log says so once.

import { answerInTime } from '../base/answer-in-time.ts'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { RedisAddress } from '../base/redis-address.ts'
import { connectRedis, type RedisClient } from '../base/redis-client.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { LimitRule } from './limit-rule.ts'
import type { Lease, LimitStore } from './limit-store.ts'

const connectTimeoutMs = 5000
/** Calls wait for an answer. Redis that does not answer in this time, or answers with an error, is away for as long. */
const answerTimeoutNs = 1e9

/** A rate: the one number of the generic cell rate algorithm, on the clock of Redis. Times in microseconds. */
const rateScript = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local unit, burst, debt, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tat = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0')) + debt * unit
local left = burst - (tat - now) / unit
local granted = math.max(0, math.min(want, math.floor(left)))
tat = tat + granted * unit
if tat > now then
  redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1000)
end
return { tostring(granted), string.format('%.0f', math.max(0, tat + unit - now - burst * unit)),
  string.format('%.0f', math.max(0, burst - (tat - now) / unit)) }
`

/** A quota: what was used in the day or month that the key names. */
const quotaScript = `
local amount, debt, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local used = tonumber(redis.call('GET', KEYS[1]) or '0') + debt
local granted = math.max(0, math.min(want, math.floor(amount - used)))
redis.call('SET', KEYS[1], tostring(used + granted), 'EX', 3000000)
return { tostring(granted), (used + granted + 1 > amount) and '1000000' or '0',
  string.format('%.0f', math.max(0, amount - used - granted)) }
`

type StoreDependencies = { readonly clock: Clock; readonly log: Log }

export class RedisLimitStore implements LimitStore {
  readonly isClosedWhenAway: boolean
  readonly #clock: Clock
  readonly #client: RedisClient
  readonly #log: Log
  readonly #place: string
  #isAway = false
  /** Redis is connected and did not answer, or with an error: it is asked again at this time. */
  #silentUntilNs = 0

  /** Throws ServerError when the package is missing. */
  static async open(
    dependencies: StoreDependencies,
    address: RedisAddress,
    onFailure: 'local' | 'closed',
  ): Promise<RedisLimitStore> {
    const redis = await import('@redis/client').catch((reason: unknown) => {
      const text = "'store' in --access-config needs the package '@redis/client': run 'npm install @redis/client'"
      throw new ServerError('UNSUPPORTED', text, { cause: reason })
    })
    return new RedisLimitStore(dependencies, address, onFailure, redis)
  }

  private constructor(
    { clock, log }: StoreDependencies,
    address: RedisAddress,
    onFailure: 'local' | 'closed',
    redis: Parameters<typeof connectRedis>[0],
  ) {
    this.#clock = clock
    this.#log = log.from('redis-limit-store.ts')
    this.#place = `${address.host}:${address.port}`
    this.isClosedWhenAway = onFailure === 'closed'
    this.#client = connectRedis(redis, address, connectTimeoutMs, {
      onAway: (reason) => this.#noteAway(reason),
      onBack: () => this.#noteBack(),
    })
  }

  get isUp(): boolean {
    return this.#client.isReady && (!this.#isAway || this.#clock.nowNs() >= this.#silentUntilNs)
  }

  async lease(
    key: string,
    rule: Exclude<LimitRule, { kind: 'concurrent' }>,
    debt: number,
    want: number,
  ): Promise<Lease> {
    const isRate = rule.kind === 'rate'
    const length = isRate ? 0 : rule.period === 'month' ? 7 : 10
    const window = isRate ? '' : `:${new Date(this.#clock.wallMs()).toISOString().slice(0, length)}`
    const args = isRate ? [rule.periodNs / 1e3 / rule.amount, rule.burst, debt, want] : [rule.amount, debt, want]
    const asked = this.#client.eval(isRate ? rateScript : quotaScript, {
      keys: [key + window],
      arguments: args.map(String),
    })
    try {
      const lease = leaseOf(await answerInTime(this.#clock, answerTimeoutNs, asked))
      if (this.#isAway) this.#noteBack()
      return lease
    } catch (reason) {
      // An error is no count: a replica that takes no writes, a key of another type, a Redis that is full.
      this.#silentUntilNs = this.#clock.nowNs() + answerTimeoutNs
      this.#noteAway(reason)
      throw reason
    }
  }

  close(): void {
    if (this.#client.isOpen) this.#client.destroy()
  }

  #noteAway(reason: unknown): void {
    if (this.#isAway) return
    this.#isAway = true
    const then = this.isClosedWhenAway ? 'calls of limited tenants are refused' : 'each server counts for itself'
    this.#log.warning(`Redis at ${this.#place} is away, ${then}: ${messageOf(reason)}`)
  }

  #noteBack(): void {
    this.#log.info(`limits are shared through Redis at ${this.#place}`)
    this.#isAway = false
  }
}

/** Throws when it is not what the scripts answer. */
function leaseOf(answer: unknown): Lease {
  const numbers = (Array.isArray(answer) ? answer : []).map((number) => Number(String(number)))
  const [granted = NaN, waitUs = NaN, left = NaN] = numbers
  if ([granted, waitUs, left].every((number) => Number.isFinite(number) && number >= 0))
    return { granted, waitNs: waitUs * 1e3, left }
  throw new ServerError('UNAVAILABLE', 'it answered something else than three counts')
}
