/** An hour of one instance of a model, from `cost: { instance_hour: … }` in its registry file, and how many instances it has. */
export type InstancePrice = { readonly instanceHour: number; readonly instances: number }

export type CostOptions = {
  /** `--cost-per-hour`: an hour of the server, for all models without a price of their own; 0: they cost nothing. */
  readonly perHour: number
  readonly currency: string
}

export type CostPrices = CostOptions & {
  /** By model. */
  readonly ofModels: ReadonlyMap<string, InstancePrice>
}

/** What a model or a tenant has used. */
export type CostSource = {
  readonly name: string
  readonly inferences: number
  readonly tokens: number
  /** Seconds. */
  readonly busyByModel: ReadonlyMap<string, number>
}

/** A sum of money, and the part of it that is for time in which nobody asked for anything. */
type Amount = { cost: number; idle: number }

/**
 * The price of the time, split: busy time by who was busy, idle time in the same shares. A model with a price of its own costs that
 * price for each of its instances, and who uses the model pays; all others share the price of the server.
 */
export function costTable(
  by: 'model' | 'tenant',
  sources: readonly CostSource[],
  secs: number,
  prices: CostPrices,
): object {
  const { perHour, currency, ofModels } = prices
  const amounts = sources.map((): Amount => ({ cost: 0, idle: 0 }))
  const total: Amount = { cost: 0, idle: 0 }
  const split = (weights: readonly number[], { cost, idle }: Amount): void => {
    total.cost += cost
    total.idle += idle
    const all = sum(weights)
    for (const [i, amount] of amounts.entries()) {
      const share = all === 0 ? 0 : (weights[i] as number) / all
      amount.cost += share * cost
      amount.idle += share * idle
    }
  }
  for (const [model, { instanceHour, instances }] of ofModels) {
    const busy = sources.map(({ busyByModel }) => busyByModel.get(model) ?? 0)
    const isUsed = (source: CostSource): boolean => by === 'tenant' || source.name === model
    split(sum(busy) > 0 ? busy : sources.map((source) => Number(isUsed(source))), amountOf(instances * secs, sum(busy), instanceHour)) // prettier-ignore
  }
  const shared = sources.map((source) => busyShared(source, ofModels))
  const isShared = (source: CostSource): boolean => by === 'tenant' || !ofModels.has(source.name)
  split(sum(shared) > 0 ? shared : sources.map((source) => Number(isShared(source))), amountOf(secs, sum(shared), perHour)) // prettier-ignore
  const rows = sources.map((source, i) => rowOf(by, source, amounts[i] as Amount))
  return {
    by,
    currency,
    per_hour: perHour,
    ...(ofModels.size === 0 ? {} : { prices: [...ofModels].map(([model, { instanceHour, instances }]) => ({ model, instance_hour: instanceHour, instances })) }), // prettier-ignore
    seconds: rounded(secs),
    cost: rounded(total.cost),
    idle_share: total.cost === 0 ? 0 : rounded(total.idle / total.cost),
    rows: rows.toSorted((a, b) => b.cost - a.cost),
  }
}

/** Models that run beside each other may be busy for longer than the time that passed: then nothing is idle. */
const amountOf = (secs: number, busySecs: number, perHour: number): Amount => ({
  cost: (secs * perHour) / 3600,
  idle: (Math.max(0, secs - busySecs) * perHour) / 3600,
})

const busyShared = ({ busyByModel }: CostSource, ofModels: CostPrices['ofModels']): number =>
  sum([...busyByModel].map(([model, busySecs]) => (ofModels.has(model) ? 0 : busySecs)))

const rowOf = (
  by: 'model' | 'tenant',
  { name, inferences, tokens, busyByModel }: CostSource,
  { cost, idle }: Amount,
) => ({
  [by]: name,
  busy_seconds: rounded(sum([...busyByModel.values()])),
  cost: rounded(cost),
  of_which_idle: rounded(idle),
  inferences,
  cost_per_1000_inferences: inferences === 0 ? null : rounded((cost / inferences) * 1000),
  tokens,
  cost_per_million_tokens: tokens === 0 ? null : rounded((cost / tokens) * 1e6),
})

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)

const rounded = (value: number): number => Number(value.toPrecision(6))
