import type { JSX } from 'preact'
import { countText, shareText } from './figure-text.ts'
import { Card, Empty, Table } from './parts.tsx'

export type ShadowCopies = {
  readonly compared: number
  readonly disagreed: number
  readonly dropped: Readonly<Record<string, number>>
  readonly executions: number
  readonly seconds: number
  readonly worst: readonly { readonly requestId: string; readonly distance: number; readonly why: readonly string[] }[]
}

const mostShown = 10
/** Stands for answers that cannot be compared. */
const farthest = 1e12

/** What copies of requests showed: how often the candidate answered otherwise, the worst first. */
export function ShadowCard({ copies }: { readonly copies: ShadowCopies }): JSX.Element {
  const { compared, disagreed, worst, executions, seconds } = copies
  const dropped = Object.values(copies.dropped).reduce((sum, count) => sum + count, 0)
  return (
    <Card title="Copies compared">
      <p>
        The candidate answered otherwise for <b>{countText(disagreed)}</b> of <b>{countText(compared)}</b> copies
        {compared === 0 ? '' : ` (${shareText(disagreed / compared)})`}.
      </p>
      <p class="soft">
        They cost {countText(executions)} executions and {seconds.toFixed(1)} s.{' '}
        {dropped === 0 ? '' : `${countText(dropped)} copies were left out.`}
      </p>
      {worst.length === 0 ? (
        <Empty>No pair of answers differs.</Empty>
      ) : (
        <Table label="Pairs of answers that differ, the worst first" head={['request', '#distance', 'why']}>
          {worst.slice(0, mostShown).map(({ requestId, distance, why }, i) => (
            <tr key={i}>
              <th scope="row">{requestId === '' ? 'without an id' : requestId}</th>
              <td class="number">{distance >= farthest ? 'not alike' : Number(distance.toPrecision(3))}</td>
              <td class="why">{why.join('; ')}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  )
}
