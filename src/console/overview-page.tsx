import type { JSX } from 'preact'
import { Chart, Sparkline } from './chart.tsx'
import { bytesText, msText, rateText, shareText, timeText } from './figure-text.ts'
import { models, rateSeries, serverFigures, versionFigures } from './live-store.ts'
import { Badge, Card, Empty, Notice, PageHead, StateBadge, Table, useEvery, useLoaded } from './parts.tsx'
import { linkTo } from './route.ts'
import { call } from './server-api.ts'
import { useServerSeries } from './server-series.ts'

type Health = { readonly ready: boolean; readonly state: string; readonly reasons: readonly string[] }
type LogLine = { readonly number: number; readonly at: string; readonly level: string; readonly message: string }

export function OverviewPage(): JSX.Element {
  const health = useLoaded('health', async () => (await call('/v2/health/detail')) as Health)
  useEvery(5000, health.reload)
  const now = serverFigures.value
  return (
    <>
      <PageHead
        title="Overview"
        actions={
          health.value === null ? null : (
            <Badge tone={health.value.ready ? 'good' : 'bad'}>{health.value.ready ? 'ready' : 'not ready'}</Badge>
          )
        }
      >
        What this server does now.
      </PageHead>
      {health.value !== null && health.value.reasons.length > 0 ? (
        <Notice tone="bad">
          <b>{health.value.ready ? 'The server is ready, but not for everything.' : 'The server is not ready.'}</b>
          <ul>
            {health.value.reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </Notice>
      ) : null}
      <div class="tiles">
        <Tile name="Requests per second" value={rateText(now?.['requests_per_s'])}>
          <Sparkline values={rateSeries.value.get('') ?? []} />
        </Tile>
        <Tile
          name="Errors per second"
          value={rateText(now?.['errors_per_s'])}
          isBad={(now?.['errors_per_s'] ?? 0) > 0}
        />
        <Tile name="Latency, p99" value={msText(now?.['p99_ms'])}>
          <span class="soft">half below {msText(now?.['p50_ms'])}</span>
        </Tile>
        <Tile name="Memory" value={bytesText(now?.['memory_bytes'])}>
          <span class="soft">
            {(now?.['cpu_cores'] ?? 0).toFixed(2)} cores, thread {shareText(now?.['main_thread'])} busy
          </span>
        </Tile>
      </div>
      <Traffic />
      <div class="columns">
        <ByTraffic />
        <Recent />
      </div>
    </>
  )
}

function Tile({
  name,
  value,
  isBad = false,
  children,
}: {
  readonly name: string
  readonly value: string
  readonly isBad?: boolean
  readonly children?: JSX.Element
}): JSX.Element {
  return (
    <div class="tile">
      <span class="tile-name">{name}</span>
      <span class={isBad ? 'figure bad' : 'figure'}>{value}</span>
      {children}
    </div>
  )
}

function Traffic(): JSX.Element {
  const series = useServerSeries()
  return (
    <div class="columns even">
      <Card>
        <Chart title="Requests per second" times={series.times} series={series.traffic} format={rateText} />
      </Card>
      <Card>
        <Chart title="Latency of requests" times={series.times} series={series.latency} format={msText} />
      </Card>
    </div>
  )
}

const mostShown = 12

function ByTraffic(): JSX.Element {
  const known = models.value
  if (known === null) return <Card title="Models">{<Empty>Asking the server…</Empty>}</Card>
  const rate = (key: string): number => versionFigures.value.get(key)?.['requests_per_s'] ?? 0
  const rows = known
    .filter(({ state, reason }) => state !== '' && !(state === 'UNAVAILABLE' && reason === 'unloaded'))
    .map((entry) => ({ ...entry, key: `${entry.name}/${entry.version}` }))
    .sort((a, b) => rate(b.key) - rate(a.key) || (a.name < b.name ? -1 : 1))
  return (
    <Card
      title="Models by traffic"
      aside={<a href={linkTo('models')}>All {new Set(known.map(({ name }) => name)).size}</a>}
    >
      {rows.length === 0 ? (
        <Empty>No model is loaded. The models page loads them.</Empty>
      ) : (
        <Table label="Models by traffic" head={['model', 'state', '#requests/s', '#p99', 'last minute']}>
          {rows.slice(0, mostShown).map(({ key, name, version, state, reason }) => {
            const figures = versionFigures.value.get(key)
            return (
              <tr key={key}>
                <th scope="row">
                  <a href={linkTo('models', name)}>{name}</a> <span class="soft">v{version}</span>
                </th>
                <td>
                  <StateBadge state={state} reason={reason} />
                </td>
                <td class="number">{rateText(figures?.['requests_per_s'])}</td>
                <td class="number">{msText(figures?.['p99_ms'])}</td>
                <td>
                  <Sparkline values={rateSeries.value.get(key) ?? []} />
                </td>
              </tr>
            )
          })}
        </Table>
      )}
    </Card>
  )
}

function Recent(): JSX.Element {
  const lines = useLoaded('recent', async () => {
    const found = (await call('/v2/logs?level=info&limit=8')) as { lines: readonly LogLine[] }
    return found.lines.toReversed()
  })
  useEvery(5000, lines.reload)
  return (
    <Card title="What happened last" aside={<a href={linkTo('logs')}>Log</a>}>
      {lines.value === null || lines.value.length === 0 ? (
        <Empty>{lines.error === '' ? 'Nothing yet.' : lines.error}</Empty>
      ) : (
        <ol class="events">
          {lines.value.map(({ number, at, level, message }) => (
            <li key={number}>
              <time dateTime={at}>{timeText(at)}</time>
              <span class={`level ${level}`}>{level}</span>
              <span class="event-text">{message}</span>
            </li>
          ))}
        </ol>
      )}
    </Card>
  )
}
