import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { whoAmI } from './caller-rights.ts'
import { countText, durationText, shareText } from './figure-text.ts'
import { Card, Choices, Empty, Notice, PageHead, Table, useEvery, useLoaded } from './parts.tsx'
import { linkTo } from './route.ts'
import { call } from './server-api.ts'

type Row = {
  readonly model?: string
  readonly tenant?: string
  readonly busy_seconds: number
  readonly cost: number
  readonly of_which_idle: number
  readonly inferences: number
  readonly cost_per_1000_inferences: number | null
  readonly tokens: number
  readonly cost_per_million_tokens: number | null
}

type Cost = {
  readonly currency: string
  readonly per_hour: number
  readonly seconds: number
  readonly cost: number
  readonly idle_share: number
  readonly rows: readonly Row[]
}

/** What the server costs, by model or by tenant. The price is that of `--cost-per-hour`. */
export function CostPage(): JSX.Element {
  const [by, setBy] = useState<'model' | 'tenant'>('model')
  const found = useLoaded(by, async () => (await call(`/v2/cost?by=${by}`)) as Cost)
  useEvery(3000, found.reload)
  const cost = found.value
  return (
    <>
      <PageHead title="Cost">What the server has cost since its start, and who used it.</PageHead>
      {found.error === '' ? null : <Notice tone="bad">{found.error}</Notice>}
      {cost === null ? (
        <Empty>{found.error === '' ? 'Asking the server…' : ''}</Empty>
      ) : (
        <>
          <div class="tiles">
            <Tile name="Cost so far" value={money(cost.cost, cost.currency)} />
            <Tile name="Price of an hour" value={money(cost.per_hour, cost.currency)} />
            <Tile name="Time so far" value={durationText(cost.seconds)} />
            <Tile name="Idle" value={shareText(cost.idle_share)} />
          </div>
          <Card
            title={by === 'model' ? 'By model' : 'By tenant'}
            aside={
              whoAmI.value?.access === true ? (
                <Choices label="Split the cost" names={[['model', 'by model'], ['tenant', 'by tenant']]} chosen={by} onChoose={setBy} /> // prettier-ignore
              ) : null
            }
          >
            <CostTable cost={cost} by={by} />
          </Card>
        </>
      )}
    </>
  )
}

const Tile = ({ name, value }: { readonly name: string; readonly value: string }): JSX.Element => (
  <div class="tile">
    <span class="tile-name">{name}</span>
    <span class="figure">{value}</span>
  </div>
)

/** Enough digits for small amounts; `EUR`, because not every currency has a sign. */
const money = (value: number | null, currency: string): string =>
  value === null ? '–' : `${value === 0 ? '0' : value >= 1 ? value.toFixed(2) : value.toPrecision(2)} ${currency}`

const CostTable = ({
  cost: { rows, currency, cost },
  by,
}: {
  readonly cost: Cost
  readonly by: 'model' | 'tenant'
}): JSX.Element =>
  rows.length === 0 ? (
    <Empty>Nothing was used yet.</Empty>
  ) : (
    <>
      <Table
        label={`Cost by ${by}`}
        head={[by, 'share', '#cost', '#of it idle', '#inferences', '#for 1,000', '#tokens', '#for a million']}
      >
        {rows.map((row) => {
          const name = row[by] ?? ''
          return (
            <tr key={name}>
              <th scope="row">
                {by === 'model' ? <a href={linkTo('models', name)}>{name}</a> : name === '' ? 'no tenant' : name}
              </th>
              <td>
                <progress max={Math.max(1e-12, cost)} value={row.cost} aria-label={`Share of ${name}`} />
              </td>
              <td class="number">{money(row.cost, currency)}</td>
              <td class="number">{money(row.of_which_idle, currency)}</td>
              <td class="number">{countText(row.inferences)}</td>
              <td class="number">{money(row.cost_per_1000_inferences, currency)}</td>
              <td class="number">{countText(row.tokens)}</td>
              <td class="number">{money(row.cost_per_million_tokens, currency)}</td>
            </tr>
          )
        })}
      </Table>
      <p class="soft">Time in which nothing ran is split in the same shares as time in which something did.</p>
    </>
  )
