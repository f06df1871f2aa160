import type { RedisClientType } from '@redis/client'
import { answerInTime } from './answer-in-time.ts'
import type { Clock } from './clock.ts'
import type { RedisAddress } from './redis-address.ts'

export type RedisModule = typeof import('@redis/client')
export type RedisClient = RedisClientType

/**
 * A client that connects on its own, now and again whenever the connection is lost. It keeps no commands while it is away. Texts
 * come as bytes.
 */
export function connectRedis(
  redis: RedisModule,
  { host, port, user, password, database, hasTls }: RedisAddress,
  connectTimeoutMs: number,
  events: { readonly onAway: (reason: unknown) => void; readonly onBack: () => void },
): RedisClient {
  const reconnectStrategy = (attempts: number): number => Math.min(100 * 2 ** attempts, 5000)
  const base = { host, port, connectTimeout: connectTimeoutMs, reconnectStrategy }
  const client = redis.createClient({
    socket: hasTls ? { ...base, tls: true } : base,
    ...(user === '' ? {} : { username: user }),
    ...(password === '' ? {} : { password }),
    database,
    disableOfflineQueue: true,
    commandOptions: { typeMapping: { [redis.RESP_TYPES.BLOB_STRING]: Buffer } },
  }) as unknown as RedisClient
  client.on('error', events.onAway)
  client.on('ready', events.onBack)
  client.connect().catch(events.onAway)
  return client
}

/**
 * Every command fails when Redis has not answered it in time, and so does closing, which waits for answers that are due. The time-out
 * of the client itself ends when a command is written: a Redis that is connected and silent would be waited for without end.
 */
export function boundAnswers(client: RedisClient, clock: Clock, limitNs: number): RedisClient {
  return new Proxy(client, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name)
      if (typeof found !== 'function') return found
      return (...words: unknown[]): unknown => {
        const result: unknown = Reflect.apply(found, target, words)
        return result instanceof Promise && name !== 'connect' ? answerInTime(clock, limitNs, result) : result
      }
    },
  })
}
