import type { JSX } from 'preact'
import { countText } from './figure-text.ts'
import { Badge, Card, Empty, Table } from './parts.tsx'

type Interval = { readonly low: number | null; readonly high: number | null }

/** What `GET /v2/rollouts/{name}` has of an experiment beside what a rollout has, too. */
export type ExperimentDetails = {
  readonly winner: string | null
  readonly arms: readonly {
    readonly arm: string
    readonly version: string
    readonly weight: number
    readonly ended: Readonly<Record<string, number>>
  }[]
  readonly goals: readonly {
    readonly goal: string
    readonly arms: readonly {
      readonly arm: string
      readonly users: number
      readonly values: number
      readonly mean: number
      readonly interval: Interval
      readonly difference: (Interval & { readonly value: number; readonly evidence: number | null }) | null
    }[]
  }[]
}

const short = (value: number): string => String(Number(value.toPrecision(3)))
const end = (value: number | null): string => (value === null ? '?' : short(value))
const withInterval = (value: number, { low, high }: Interval): string =>
  low === null && high === null ? `${short(value)} (not sure yet)` : `${short(value)} (${end(low)} to ${end(high)})`

/** The arms with their shares, and one card for each goal. */
export const ExperimentCards = ({ experiment }: { readonly experiment: ExperimentDetails }): JSX.Element => (
  <>
    <Card title="Arms">
      <Table label="Arms" head={['arm', 'version', '#share', '#answers', '#errors']}>
        {experiment.arms.map(({ arm, version, weight, ended }) => (
          <tr key={arm}>
            <th scope="row">
              {arm} {experiment.winner === arm ? <Badge tone="good">better for certain</Badge> : null}
            </th>
            <td>{version}</td>
            <td class="number">{weight} %</td>
            <td class="number">{countText(ended['success'] ?? 0)}</td>
            <td class="number">{countText(ended['error'] ?? 0)}</td>
          </tr>
        ))}
      </Table>
    </Card>
    {experiment.goals.length === 0 ? <Empty>No feedback has come yet.</Empty> : null}
    {experiment.goals.map(({ goal, arms }) => (
      <Card key={goal} title={goal}>
        <Table label={goal} head={['arm', '#users', '#values', '#mean', '#less the first arm', '#evidence (log₁₀ e)']}>
          {arms.map(({ arm, users, values, mean, interval, difference }) => (
            <tr key={arm}>
              <th scope="row">{arm}</th>
              <td class="number">{countText(users)}</td>
              <td class="number">{countText(values)}</td>
              <td class="number">{withInterval(mean, interval)}</td>
              <td class="number">{difference === null ? '–' : withInterval(difference.value, difference)}</td>
              <td class="number">{difference === null ? '–' : end(difference.evidence)}</td>
            </tr>
          ))}
        </Table>
      </Card>
    ))}
  </>
)
