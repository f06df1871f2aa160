// Counts how models come into memory on demand and leave it.

type EvictionReason = 'memory' | 'idle'

/** Upper bounds of the buckets of cold starts, in seconds. */
export const coldStartBounds: readonly number[] = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]

type ColdStarts = { readonly counts: number[]; sum: number }

export class ResidencyLedger {
  readonly #evictions = new Map<string, Map<EvictionReason, number>>()
  readonly #coldStarts = new Map<string, ColdStarts>()

  evicted(model: string, reason: EvictionReason): void {
    const counts = this.#evictions.get(model) ?? new Map<EvictionReason, number>()
    counts.set(reason, (counts.get(reason) ?? 0) + 1)
    this.#evictions.set(model, counts)
  }

  /** From the first request for a model that was not in memory until it could be executed. */
  coldStart(model: string, seconds: number): void {
    const starts = this.#coldStarts.get(model) ?? { counts: [...coldStartBounds.map(() => 0), 0], sum: 0 }
    const bucket = coldStartBounds.findIndex((bound) => seconds <= bound)
    const at = bucket < 0 ? coldStartBounds.length : bucket
    starts.counts[at] = (starts.counts[at] as number) + 1
    starts.sum += seconds
    this.#coldStarts.set(model, starts)
  }

  evictions(): ReadonlyMap<string, ReadonlyMap<EvictionReason, number>> {
    return this.#evictions
  }

  coldStarts(): ReadonlyMap<string, ColdStarts> {
    return this.#coldStarts
  }
}
