import { randomUUID } from 'node:crypto'
import type { Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { LocalResponseCache } from './engine/cache/local-response-cache.ts'
import type { ResponseCache } from './model/response-cache.ts'
import type { ResponseCacheOptions } from './options/server-options.ts'
import type { ContentIndex } from './repository/content-index.ts'

/** Null where `--cache-config` asks for none. */
export async function openResponseCache(
  dependencies: { clock: Clock; log: Log; contents?: ContentIndex },
  options: ResponseCacheOptions | null,
): Promise<ResponseCache | null> {
  if (options === null) return null
  if (options.kind === 'local') return new LocalResponseCache(options.maxBytes)
  const { RedisResponseCache } = await import('./engine/cache/redis-response-cache.ts')
  return RedisResponseCache.open({ ...dependencies, runId: randomUUID() }, options)
}
