import type { ModelKey } from '../../model/model-key.ts'

/** A model in memory that nobody uses now. */
type IdleModel = { readonly key: ModelKey; readonly bytes: number; readonly lastUsedNs: number }

/** The models to put to sleep so that `neededBytes` become free, used longest ago first. Null: all are not enough. */
export function planEviction(idle: readonly IdleModel[], neededBytes: number): ModelKey[] | null {
  const keys: ModelKey[] = []
  let freed = 0
  for (const { key, bytes } of idle.toSorted((a, b) => a.lastUsedNs - b.lastUsedNs)) {
    if (freed >= neededBytes) break
    if (bytes <= 0) continue
    keys.push(key)
    freed += bytes
  }
  return freed >= neededBytes ? keys : null
}
