import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { ModelConfig, ModelMetadata, ModelStatistics, TensorMetadata } from '../client/web.ts'
import { Chart } from './chart.tsx'
import { ConfigInForce } from './config-in-force.tsx'
import { ConfigView } from './config-view.tsx'
import { EnsembleView } from './ensemble-view.tsx'
import { countText, dateText, msText, rateText, shareText } from './figure-text.ts'
import { models, versionFigures } from './live-store.ts'
import { ModelHistory } from './model-history.tsx'
import { ModelInstances } from './model-instances.tsx'
import { ModelRegistry } from './model-registry.tsx'
import { ModelActions } from './models-page.tsx'
import { Card, Choice, Empty, Notice, PageHead, StateBadge, Table, Tabs, useEvery, useLoaded } from './parts.tsx'
import { linkTo } from './route.ts'
import { client } from './server-api.ts'
import { seriesOf, useFigureSeries } from './server-series.ts'

type Details = { readonly metadata: ModelMetadata; readonly config: ModelConfig }

export function ModelPage({ name }: { readonly name: string }): JSX.Element {
  const entries = (models.value ?? []).filter((entry) => entry.name === name)
  const serving = entries.filter(({ state }) => state === 'READY')
  const [chosen, choose] = useState('')
  const version =
    chosen === '' ? (serving.map((entry) => entry.version).sort((a, b) => Number(b) - Number(a))[0] ?? '') : chosen
  if (models.value !== null && entries.length === 0) {
    return (
      <>
        <PageHead title={name}>The server has no model of this name.</PageHead>
        <a href={linkTo('models')}>All models</a>
      </>
    )
  }
  return (
    <>
      <PageHead title={name} actions={<ModelActions name={name} isReady={serving.length > 0} />}>
        {entries.map((entry) => (
          <span key={entry.version} class="version-state">
            {entry.version === '' ? '' : `version ${entry.version} `}
            <StateBadge state={entry.state} reason={entry.reason} />
          </span>
        ))}
      </PageHead>
      {entries
        .filter(({ state, reason }) => state !== 'READY' && reason !== '' && reason !== 'unloaded')
        .map((entry) => (
          <Notice key={entry.version} tone="bad">
            <b>Version {entry.version} does not serve.</b> {entry.reason}
          </Notice>
        ))}
      {serving.length > 1 ? (
        <div class="toolbar">
          <Choice label="Version" value={version} of={serving.map(({ version }) => version)} onChange={choose} />
        </div>
      ) : null}
      {version === '' ? <Empty>No version of this model serves.</Empty> : <Serving name={name} version={version} />}
      <div class="columns">
        <ConfigView name={name} />
        <ModelHistory name={name} />
      </div>
    </>
  )
}

function Serving({ name, version }: { readonly name: string; readonly version: string }): JSX.Element {
  const details = useLoaded<Details>(`${name}/${version}`, async () => {
    const [metadata, config] = await Promise.all([
      client.modelMetadata(name, { version }),
      client.modelConfig(name, { version }),
    ])
    return { metadata, config }
  })
  const now = versionFigures.value.get(`${name}/${version}`)
  return (
    <>
      <div class="tiles">
        <Figure name="Requests per second" value={rateText(now?.['requests_per_s'])} />
        <Figure name="Errors per second" value={rateText(now?.['errors_per_s'])} />
        <Figure name="Latency, p99" value={msText(now?.['p99_ms'])} />
        <Figure
          name="Waiting / in flight"
          value={`${countText(now?.['waiting'])} / ${countText(now?.['in_flight'])}`}
        />
        {(now?.['instances'] ?? 0) === 0 ? null : (
          <Figure
            name={`Busy, of ${countText(now?.['instances'])} ${now?.['instances'] === 1 ? 'instance' : 'instances'}`}
            value={shareText(now?.['busy'])}
          />
        )}
        <Figure name="Rows per batch" value={rateText(now?.['batch'])} />
      </div>
      <Charts name={name} version={version} />
      {details.error === '' ? null : <Notice tone="bad">{details.error}</Notice>}
      {details.value === null ? null : <Described {...details.value} name={name} version={version} />}
    </>
  )
}

const Figure = ({ name, value }: { readonly name: string; readonly value: string }): JSX.Element => (
  <div class="tile">
    <span class="tile-name">{name}</span>
    <span class="figure">{value}</span>
  </div>
)

function Charts({ name, version }: { readonly name: string; readonly version: string }): JSX.Element {
  const points = useFigureSeries(name, version)
  return (
    <div class="columns three">
      <Card>
        <Chart
          title="Requests per second"
          times={points.times}
          series={seriesOf(points, { requests: 'requests_per_s', errors: 'errors_per_s' })}
          format={rateText}
        />
      </Card>
      <Card>
        <Chart
          title="Latency of requests"
          times={points.times}
          series={seriesOf(points, { 'half below': 'p50_ms', '99 of 100 below': 'p99_ms' })}
          format={msText}
        />
      </Card>
      <Card>
        <Chart
          title="Mean time of a request"
          times={points.times}
          series={seriesOf(points, { compute: 'compute_ms', queue: 'queue_ms' })}
          format={msText}
        />
      </Card>
    </div>
  )
}

function Described({
  metadata,
  config,
  name,
  version,
}: Details & { readonly name: string; readonly version: string }): JSX.Element {
  return (
    <Card>
      <Tabs
        label="About this version"
        tabs={[
          [
            'Inputs and outputs',
            () => (
              <div class="columns even flush">
                <Tensors title="Inputs" tensors={metadata.inputs} />
                <Tensors title="Outputs" tensors={metadata.outputs} />
              </div>
            ),
          ],
          ...(isEnsemble(config) ? ([['Steps', () => <EnsembleView config={config} />]] as const) : []),
          ['Instances', () => <ModelInstances name={name} version={version} config={config} />],
          ['Registry', () => <ModelRegistry name={name} />],
          ['Statistics', () => <Statistics name={name} version={version} />],
          ['Configuration in force', () => <ConfigInForce name={name} config={withoutEmpty(config) as object} />],
        ]}
      />
    </Card>
  )
}

const isEnsemble = (config: ModelConfig): boolean => config['ensemble_scheduling'] !== undefined

const Tensors = ({
  title,
  tensors,
}: {
  readonly title: string
  readonly tensors: readonly TensorMetadata[]
}): JSX.Element => (
  <div>
    <h3>{title}</h3>
    <Table label={title} head={['name', 'type', 'shape']}>
      {tensors.map(({ name, dataType, shape }) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td>{dataType}</td>
          <td>[{shape.join(', ')}]</td>
        </tr>
      ))}
    </Table>
  </div>
)

function Statistics({ name, version }: { readonly name: string; readonly version: string }): JSX.Element {
  const found = useLoaded(
    `${name}/${version}`,
    async () => (await client.statistics(name, { version }))[0] as ModelStatistics,
  )
  useEvery(3000, found.reload)
  if (found.value === null) return <Empty>{found.error === '' ? 'Asking the server…' : found.error}</Empty>
  const { inferenceStats, batchStats, inferenceCount, executionCount, lastInference } = found.value
  return (
    <>
      <p>
        {countText(inferenceCount)} rows in {countText(executionCount)} executions.{' '}
        {lastInference === 0 ? '' : `The last one was at ${dateText(lastInference)}.`}
      </p>
      <div class="columns even flush">
        <Table label="Statistics by phase" head={['phase', '#count', '#mean']}>
          {Object.entries(inferenceStats).map(([phase, { count, ns }]) => (
            <tr key={phase}>
              <th scope="row">{phase.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}</th>
              <td class="number">{countText(count)}</td>
              <td class="number">{msText(count === 0 ? null : ns / count / 1e6)}</td>
            </tr>
          ))}
        </Table>
        <Table label="Statistics by batch size" head={['rows of a batch', '#executions', '#mean compute']}>
          {batchStats.map(({ batchSize, computeInfer }) => (
            <tr key={batchSize}>
              <th scope="row">{batchSize}</th>
              <td class="number">{countText(computeInfer.count)}</td>
              <td class="number">
                {msText(computeInfer.count === 0 ? null : computeInfer.ns / computeInfer.count / 1e6)}
              </td>
            </tr>
          ))}
        </Table>
      </div>
    </>
  )
}

/** What is not set says nothing. */
function withoutEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEmpty)
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value)
    .map(([key, each]): [string, unknown] => [key, withoutEmpty(each)])
    .filter(([, each]) => each !== '' && each !== false && !(Array.isArray(each) && each.length === 0))
    .filter(
      ([, each]) =>
        !(typeof each === 'object' && each !== null && !Array.isArray(each) && Object.keys(each).length === 0),
    )
  return Object.fromEntries(kept)
}
