import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { countText, durationText } from './figure-text.ts'
import { Card, confirmThen, Empty, Table, useEvery, useLoaded } from './parts.tsx'
import { call } from './server-api.ts'

type Fault = {
  readonly id: string
  readonly model: string | null
  readonly arm: string
  readonly share: number
  readonly delay_ms: number
  readonly abort: { readonly code: string } | null
  readonly left_s: number
  readonly hits: number
}

const arms = ['candidate', 'stable', 'any'] as const

/** Delays and errors on purpose: they show whether the judge sees what it should see. */
export function FaultsCard({ model }: { readonly model: string }): JSX.Element {
  const found = useLoaded('faults', async () => (await call('/v2/faults')) as readonly Fault[])
  useEvery(2000, found.reload)
  const own = (found.value ?? []).filter((fault) => fault.model === null || fault.model === model)
  const askToEnd = ({ id }: Fault): void =>
    confirmThen({
      title: `End the fault ${id}?`,
      text: 'Requests that come from now on are answered as they should be.',
      action: 'End it',
      act: async () => {
        await call(`/v2/faults/${encodeURIComponent(id)}/cancel`, {})
        found.reload()
      },
    })
  return (
    <Card title="Faults on purpose">
      {own.length === 0 ? (
        <Empty>No fault is in force for this model.</Empty>
      ) : (
        <Table label="Faults in force" head={['fault', 'arm', '#share', 'what', '#hit', '#left', 'act']}>
          {own.map((fault) => (
            <tr key={fault.id}>
              <th scope="row">{fault.id}</th>
              <td>{fault.arm}</td>
              <td class="number">{fault.share} %</td>
              <td>{whatText(fault)}</td>
              <td class="number">{countText(fault.hits)}</td>
              <td class="number">{durationText(fault.left_s)}</td>
              <td class="row-actions">
                <button type="button" class="quiet small" onClick={() => askToEnd(fault)}>
                  End<span class="hidden"> {fault.id}</span>
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      <NewFault model={model} onDone={found.reload} />
    </Card>
  )
}

const whatText = ({ delay_ms, abort }: Fault): string =>
  [delay_ms > 0 ? `${delay_ms} ms later` : '', abort === null ? '' : `error ${abort.code}`]
    .filter((text) => text !== '')
    .join(', ')

function NewFault({ model, onDone }: { readonly model: string; readonly onDone: () => void }): JSX.Element {
  const [arm, setArm] = useState<string>('candidate')
  const [share, setShare] = useState(10)
  const [delay, setDelay] = useState(0)
  const [isError, setError] = useState(true)
  const [minutes, setMinutes] = useState(5)
  const ask = (event: Event): void => {
    event.preventDefault()
    const what = [delay > 0 ? `come ${delay} ms later` : '', isError ? 'fail' : ''].filter(Boolean).join(' and ')
    confirmThen({
      title: `Disturb requests of ${model}?`,
      text: `For ${minutes} minutes ${share} % of the real requests of clients (arm: ${arm}) ${what}. The judge counts them.`,
      action: 'Begin',
      isDangerous: true,
      act: async () => {
        await call('/v2/faults', {
          model,
          arm,
          share,
          judge: true,
          for: `${minutes}m`,
          ...(delay > 0 ? { delay_ms: delay } : {}),
          ...(isError ? { abort: { code: 'UNAVAILABLE', message: 'a fault on purpose, from the console' } } : {}),
        })
        onDone()
      },
    })
  }
  return (
    <form class="toolbar spaced" onSubmit={ask}>
      <label class="field narrow">
        <span>Arm</span>
        <select value={arm} onChange={(event) => setArm(event.currentTarget.value)}>
          {arms.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <NumberField name="Per cent" value={share} least={0.01} most={100} onValue={setShare} />
      <NumberField name="Delay, in ms" value={delay} least={0} most={60_000} onValue={setDelay} />
      <NumberField name="Minutes" value={minutes} least={1} most={60} onValue={setMinutes} />
      <label class="inline">
        <input type="checkbox" checked={isError} onChange={(event) => setError(event.currentTarget.checked)} />
        answer with an error
      </label>
      <button type="submit" class="danger" disabled={delay === 0 && !isError}>
        Begin
      </button>
    </form>
  )
}

const NumberField = ({
  name,
  value,
  least,
  most,
  onValue,
}: {
  readonly name: string
  readonly value: number
  readonly least: number
  readonly most: number
  readonly onValue: (value: number) => void
}): JSX.Element => (
  <label class="field narrow">
    <span>{name}</span>
    <input
      type="number"
      class="short"
      min={least}
      max={most}
      step="any"
      value={value}
      onInput={(event) => onValue(Math.min(most, Math.max(least, Number(event.currentTarget.value) || least)))}
    />
  </label>
)
