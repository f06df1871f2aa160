/** `--cost-per-hour` and `--currency`. */
export type CostOptions = { readonly perHour: number; readonly currency: string }

/** What a model or a tenant has used. */
export type CostSource = {
  readonly name: string
  readonly busySecs: number
  readonly inferences: number
  readonly tokens: number
}

/**
 * The price of the time since the start, split: busy time by who was busy, idle time in the same shares. Models that run beside
 * each other may be busy for longer than the time that passed: then the shares are of the busy time, and nothing is idle.
 */
export function costTable(
  by: 'model' | 'tenant',
  sources: readonly CostSource[],
  secs: number,
  { perHour, currency }: CostOptions,
): object {
  const price = perHour / 3600
  const busy = sources.reduce((sum, { busySecs }) => sum + busySecs, 0)
  const busyPrice = busy > secs ? (secs / busy) * price : price
  const idleCost = Math.max(0, secs - busy) * price
  const rows = sources.map(({ name, busySecs, inferences, tokens }) => {
    const share = busy === 0 ? 1 / sources.length : busySecs / busy
    const cost = busySecs * busyPrice + share * idleCost
    return {
      [by]: name,
      busy_seconds: rounded(busySecs),
      cost: rounded(cost),
      of_which_idle: rounded(share * idleCost),
      inferences,
      cost_per_1000_inferences: inferences === 0 ? null : rounded((cost / inferences) * 1000),
      tokens,
      cost_per_million_tokens: tokens === 0 ? null : rounded((cost / tokens) * 1e6),
    }
  })
  return {
    by,
    currency,
    per_hour: perHour,
    seconds: rounded(secs),
    cost: rounded(secs * price),
    idle_share: secs === 0 ? 0 : rounded(Math.max(0, secs - busy) / secs),
    rows: rows.toSorted((a, b) => (b['cost'] as number) - (a['cost'] as number)),
  }
}

const rounded = (value: number): number => Number(value.toPrecision(6))
