import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { RegisteredModel } from '../client/web.ts'
import { may } from './caller-rights.ts'
import { bytesText, dateText } from './figure-text.ts'
import { Choice, confirmThen, Empty, Table, useLoaded } from './parts.tsx'
import { call, client } from './server-api.ts'

type Labels = Readonly<Record<string, string>>

/** What the registry knows of a model: where it comes from, how large it is, and the names of its versions. */
export function ModelRegistry({ name }: { readonly name: string }): JSX.Element {
  const found = useLoaded(name, () => client.modelRegistry(name))
  const labels = useLoaded(name, async () =>
    may('rollouts') ? ((await call(`/v2/models/${encodeURIComponent(name)}/labels`)) as Labels) : {},
  )
  const model = found.value
  if (model === null) return <Empty>{found.error === '' ? 'Asking the server…' : found.error}</Empty>
  return (
    <>
      <Facts model={model} />
      <Table
        label="Versions in the registry"
        head={['version', 'labels', '#size', '#files', '#memory', 'loaded', 'contents']}
        wideOnly={['files', 'memory', 'contents']}
      >
        {model.versions.map((version) => (
          <tr key={version.version}>
            <th scope="row">{version.version}</th>
            <td>{labelsOf(labels.value ?? {}, version.version)}</td>
            <td class="number">{bytesText(version.size_bytes)}</td>
            <td class="number wide-only">{version.file_count ?? '–'}</td>
            <td class="number wide-only">{bytesText(version.memory_bytes)}</td>
            <td>{version.loaded_at === undefined ? '–' : dateText(version.loaded_at)}</td>
            <td class="wide-only">
              <code>{version.content_hash?.slice(0, 19) ?? '–'}</code>
            </td>
          </tr>
        ))}
      </Table>
      {may('rollouts') ? <NewLabel name={name} model={model} onDone={labels.reload} /> : null}
    </>
  )
}

const labelsOf = (labels: Labels, version: string): string =>
  Object.entries(labels)
    .filter(([, of]) => of === version)
    .map(([label]) => label)
    .join(', ') || '–'

function Facts({ model }: { readonly model: RegisteredModel }): JSX.Element | null {
  const { description, owner, tags, framework, training_data, metrics, lineage, approved_by } = model
  const metricTexts = Object.entries(metrics ?? {}).map(([metric, value]) => `${metric} ${String(value)}`)
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['description', description],
    ['owner', owner],
    ['tags', tags?.join(', ')],
    ['framework', framework],
    ['training data', training_data?.join(', ')],
    ['metrics', metricTexts.join(', ')],
    ['comes from', [lineage?.source_uri, lineage?.parent_version].filter(Boolean).join(', version ')],
    ['approved by', approved_by?.join(', ')],
  ]
  const known = rows.filter(([, value]) => value !== undefined && value !== '')
  return known.length === 0 ? null : (
    <dl class="facts">
      {known.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

function NewLabel({
  name,
  model,
  onDone,
}: {
  readonly name: string
  readonly model: RegisteredModel
  readonly onDone: () => void
}): JSX.Element {
  const versions = model.versions.map(({ version }) => version)
  const [label, setLabel] = useState('')
  const [version, setVersion] = useState(versions.at(-1) ?? '')
  const ask = (event: Event): void => {
    event.preventDefault()
    confirmThen({
      title: `Call version ${version} of ${name} “${label}”?`,
      text: 'Requests that name the label go to this version from now on. A version that had the label loses it.',
      action: 'Set the label',
      act: async () => {
        await call(`/v2/models/${encodeURIComponent(name)}/labels`, { [label]: Number(version) })
        setLabel('')
        onDone()
      },
    })
  }
  return (
    <form class="toolbar spaced" onSubmit={ask}>
      <label class="field">
        <span>Label</span>
        <input value={label} maxLength={64} onInput={(event) => setLabel(event.currentTarget.value.trim())} />
      </label>
      <Choice label="Version" value={version} of={versions} onChange={setVersion} />
      <button type="submit" class="quiet" disabled={label === '' || version === ''}>
        Set the label
      </button>
    </form>
  )
}
