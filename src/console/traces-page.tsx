import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { msText, timeText } from './figure-text.ts'
import { models } from './live-store.ts'
import { Card, Choice, Empty, Notice, PageHead, Table, useEvery, useLoaded } from './parts.tsx'
import { call, client, messageOf } from './server-api.ts'

type Span = {
  readonly name: string
  readonly depth: number
  readonly start_ms: number
  readonly duration_ms: number
}

type Trace = {
  readonly id: string
  readonly model: string
  readonly version: string
  readonly request_id: string
  readonly ended: number
  readonly duration_ms: number
  readonly spans: readonly Span[]
}

const traced = 20

export function TracesPage(): JSX.Element {
  const [model, setModel] = useState('')
  const [least, setLeast] = useState(0)
  const [chosen, choose] = useState('')
  const [said, say] = useState('')
  const query = `model=${encodeURIComponent(model)}&min_ms=${least}`
  const found = useLoaded(
    query,
    async () => ((await call(`/v2/traces?${query}`)) as { traces: readonly Trace[] }).traces,
  )
  useEvery(2000, found.reload)
  const traceNext = async (): Promise<void> => {
    try {
      await client.updateTraceSettings(
        { trace_level: ['TIMESTAMPS'], trace_rate: '1', trace_count: String(traced) },
        model === '' ? undefined : model,
      )
      say(`The next ${traced} requests${model === '' ? '' : ` of ${model}`} are traced.`)
    } catch (reason) {
      say(messageOf(reason))
    }
  }
  const names = [...new Set((models.value ?? []).map(({ name }) => name))].sort()
  const traces = found.value ?? []
  const shown = traces.find(({ id }) => id === chosen) ?? traces[0]
  return (
    <>
      <PageHead
        title="Traces"
        actions={
          <button type="button" class="main" onClick={() => void traceNext()}>
            Trace the next {traced} requests
          </button>
        }
      >
        Where the time of a request went.
      </PageHead>
      <p role="status" class="soft">
        {said}
      </p>
      {found.error === '' ? null : <Notice tone="bad">{found.error}</Notice>}
      <div class="toolbar">
        <Choice label="Model" value={model} of={names} none="all" onChange={setModel} />
        <label class="field">
          <span>Slower than, in ms</span>
          <input
            type="number"
            min={0}
            value={least}
            onInput={(event) => setLeast(Math.max(0, Number(event.currentTarget.value) || 0))}
          />
        </label>
      </div>
      <div class="columns even">
        <Card title="Requests">
          {traces.length === 0 ? (
            <Empty>No request was traced yet. “Trace the next 20 requests” begins with the next one that comes.</Empty>
          ) : (
            <Table label="Traced requests" head={['time', 'model', '#took', 'show']}>
              {traces.map((trace) => (
                <tr key={trace.id} class={trace === shown ? 'chosen' : ''}>
                  <td>{timeText(trace.ended)}</td>
                  <th scope="row">
                    {trace.model} <span class="soft">v{trace.version}</span>
                  </th>
                  <td class="number">{msText(trace.duration_ms)}</td>
                  <td>
                    <button
                      type="button"
                      class="quiet small"
                      aria-pressed={trace === shown}
                      onClick={() => choose(trace.id)}
                    >
                      Show
                    </button>
                  </td>
                </tr>
              ))}
            </Table>
          )}
        </Card>
        {shown === undefined ? null : <Waterfall trace={shown} />}
      </div>
    </>
  )
}

function Waterfall({ trace }: { readonly trace: Trace }): JSX.Element {
  const all = Math.max(trace.duration_ms, 1e-6)
  return (
    <Card title={`${trace.model}, ${msText(trace.duration_ms)}`}>
      {trace.request_id === '' ? null : <p class="soft">request {trace.request_id}</p>}
      <ol class="waterfall">
        {trace.spans.map((span, i) => (
          <li key={i}>
            <span class={`span-name depth-${Math.min(span.depth, 6)}`}>{span.name}</span>
            <svg class="span-row" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
              <rect
                class={span.depth % 2 === 0 ? 'span-bar whole' : `span-bar ${span.name}`}
                x={(span.start_ms / all) * 100}
                width={Math.max((span.duration_ms / all) * 100, 0.4)}
                y="1"
                height="8"
              />
            </svg>
            <span class="number">{msText(span.duration_ms)}</span>
          </li>
        ))}
      </ol>
    </Card>
  )
}
