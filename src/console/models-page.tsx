import { useComputed } from '@preact/signals'
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { IndexEntry } from '../client/web.ts'
import { may } from './caller-rights.ts'
import { Sparkline } from './chart.tsx'
import { countText, msText, rateText } from './figure-text.ts'
import { facts, models, noRates, rateSeries, refreshModels, versionFigures } from './live-store.ts'
import { Card, confirmThen, Empty, Notice, PageHead, StateBadge, Table, useLoaded } from './parts.tsx'
import { linkTo } from './route.ts'
import { client } from './server-api.ts'

const mostFound = 200

export function ModelsPage(): JSX.Element {
  const [text, setText] = useState('')
  const known = models.value
  const words = text.trim().toLowerCase()
  // The registry knows owners, tags and descriptions too.
  const found = useLoaded(`search ${words}`, async () =>
    words === '' ? [] : (await client.searchRegistry({ text: words, limit: mostFound })).models.map(({ name }) => name),
  )
  const wanted = (known ?? []).filter(
    ({ name }) => name.toLowerCase().includes(words) || (found.value?.includes(name) ?? false),
  )
  return (
    <>
      <PageHead title="Models">Every model of the repositories, and how it serves.</PageHead>
      <ControlNotice />
      <Card
        title="Models"
        aside={
          <label class="search">
            <span class="hidden">Search models</span>
            <input
              type="search"
              placeholder="Name, owner, tag"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </label>
        }
      >
        {known === null ? (
          <Empty>Asking the server…</Empty>
        ) : wanted.length === 0 ? (
          <Empty>{known.length === 0 ? 'The repositories hold no model.' : 'No model fits.'}</Empty>
        ) : (
          <Table
            label="Models"
            head={['model', 'version', 'state', '#requests/s', '#p99', '#waiting', 'load', 'act']}
            wideOnly={['p99', 'waiting', 'load']}
          >
            {wanted.map((entry) => (
              <ModelRow key={`${entry.name}/${entry.version}`} entry={entry} />
            ))}
          </Table>
        )}
      </Card>
    </>
  )
}

const ControlNotice = (): JSX.Element | null =>
  facts.value === null || facts.value.model_control === 'explicit' ? null : (
    <Notice tone="calm">
      {facts.value.model_control === 'poll'
        ? 'The server follows its repositories by itself. '
        : 'The server loaded its models at the start. '}
      Start it with <code>--model-control-mode=explicit</code> to load and unload models here.
    </Notice>
  )

function ModelRow({ entry }: { readonly entry: IndexEntry }): JSX.Element {
  const { name, version, state, reason } = entry
  // A row is drawn again when its own figures change, not with every sample: there may be hundreds of rows.
  const key = `${name}/${version}`
  const figures = useComputed(() => versionFigures.value.get(key)).value
  const rates = useComputed(() => rateSeries.value.get(key) ?? noRates).value
  return (
    <tr>
      <th scope="row">
        <a href={linkTo('models', name)}>{name}</a>
      </th>
      <td>{version === '' ? '–' : version}</td>
      <td>
        <StateBadge state={state} reason={reason} />
        {reason === '' || state === 'READY' || reason === 'unloaded' ? null : <p class="reason">{reason}</p>}
      </td>
      <td class="number">{rateText(figures?.['requests_per_s'])}</td>
      <td class="number wide-only">{msText(figures?.['p99_ms'])}</td>
      <td class="number wide-only">{countText(figures?.['waiting'])}</td>
      <td class="wide-only">{version === '' ? null : <Sparkline values={rates} />}</td>
      <td class="row-actions">
        <ModelActions name={name} isReady={state === 'READY'} />
      </td>
    </tr>
  )
}

export function ModelActions({ name, isReady }: { readonly name: string; readonly isReady: boolean }): JSX.Element {
  const isExplicit = facts.value === null || facts.value.model_control === 'explicit'
  const isControlled = isExplicit && may('model-repository')
  return (
    <>
      {isReady && may('inference') ? (
        <a class="button small" href={linkTo('playground', name)}>
          Try
        </a>
      ) : null}
      {isControlled ? (
        <>
          <button type="button" class="quiet small" onClick={() => askToLoad(name, isReady)}>
            {isReady ? 'Load again' : 'Load'}
            <span class="hidden"> {name}</span>
          </button>
          {isReady ? (
            <button type="button" class="quiet small" onClick={() => askToUnload(name)}>
              Unload<span class="hidden"> {name}</span>
            </button>
          ) : null}
        </>
      ) : null}
    </>
  )
}

function askToLoad(name: string, isReady: boolean): void {
  confirmThen({
    title: `Load ${name}?`,
    text: isReady
      ? 'The server reads its files again. Versions that serve now go on until the new ones are ready.'
      : 'The server reads its files and starts it. This can take a while for a large model.',
    action: 'Load',
    act: async () => {
      await client.loadModel(name)
      await refreshModels()
    },
  })
}

function askToUnload(name: string): void {
  let inFlight = 0
  for (const [key, figures] of versionFigures.value) {
    if (key.startsWith(`${name}/`)) inFlight += (figures['in_flight'] ?? 0) + (figures['waiting'] ?? 0)
  }
  confirmThen({
    title: `Unload ${name}?`,
    text: `${inFlight === 0 ? 'No request is in flight.' : `${inFlight} requests in flight will end first.`} Requests that come later are refused until the model is loaded again.`,
    action: 'Unload',
    isDangerous: true,
    act: async () => {
      await client.unloadModel(name)
      await refreshModels()
    },
  })
}
