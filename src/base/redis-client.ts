import type { RedisClientType } from '@redis/client'
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
