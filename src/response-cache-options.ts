// Which response cache `--cache-config` asks for, and the making of it.

import { randomUUID } from 'node:crypto'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { LocalResponseCache } from './engine/cache/local-response-cache.ts'
import type { RedisCacheOptions } from './engine/cache/redis-response-cache.ts'
import type { ResponseCache } from './model/response-cache.ts'
import type { ContentIndex } from './repository/content-index.ts'

export type ResponseCacheOptions =
  { readonly kind: 'local'; readonly maxBytes: number } | ({ readonly kind: 'redis' } & RedisCacheOptions)

export async function openResponseCache(
  dependencies: { clock: Clock; log: Log; contents?: ContentIndex },
  options: ResponseCacheOptions | null,
): Promise<ResponseCache | null> {
  if (options === null) return null
  if (options.kind === 'local') return new LocalResponseCache(options.maxBytes)
  const { RedisResponseCache } = await import('./engine/cache/redis-response-cache.ts')
  return RedisResponseCache.open({ ...dependencies, runId: randomUUID() }, options)
}
