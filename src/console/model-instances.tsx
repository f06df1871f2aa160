import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { ModelConfig } from '../client/web.ts'
import { may } from './caller-rights.ts'
import { countText } from './figure-text.ts'
import { facts } from './live-store.ts'
import { Badge, confirmThen, Empty, Table, useEvery, useLoaded } from './parts.tsx'
import { call, client } from './server-api.ts'

type Instance = {
  readonly name: string
  readonly ready: boolean
  readonly hung: boolean
  readonly restarts: number
  readonly last_error: string
}

type Health = {
  readonly models: readonly {
    readonly name: string
    readonly version: string
    readonly instances: readonly Instance[]
  }[]
}

type Group = { readonly count?: number }

/** The copies of a version that run, and how many there should be. */
export function ModelInstances({
  name,
  version,
  config,
}: {
  readonly name: string
  readonly version: string
  readonly config: ModelConfig
}): JSX.Element {
  const found = useLoaded(`${name}/${version}`, async () => {
    const { models } = (await call('/v2/health/detail')) as Health
    return models.find((model) => model.name === name && model.version === version)?.instances ?? []
  })
  useEvery(2000, found.reload)
  const groups = (config['instance_group'] ?? []) as readonly Group[]
  const isExplicit = facts.value?.model_control === 'explicit'
  if (found.value === null) return <Empty>{found.error === '' ? 'Asking the server…' : found.error}</Empty>
  return (
    <>
      {found.value.length === 0 ? (
        <Empty>This model has no instances of its own.</Empty>
      ) : (
        <Table label="Instances" head={['instance', 'state', '#restarts', 'last error']}>
          {found.value.map((instance) => (
            <tr key={instance.name}>
              <th scope="row">{instance.name}</th>
              <td>
                <InstanceState instance={instance} />
              </td>
              <td class="number">{countText(instance.restarts)}</td>
              <td class="why">{instance.last_error === '' ? 'none' : instance.last_error}</td>
            </tr>
          ))}
        </Table>
      )}
      {groups.length === 1 && isExplicit && may('model-repository') ? (
        <Rescale name={name} config={config} now={found.value.length} onDone={found.reload} />
      ) : null}
    </>
  )
}

const InstanceState = ({ instance: { ready, hung } }: { readonly instance: Instance }): JSX.Element =>
  hung ? (
    <Badge tone="bad">hung</Badge>
  ) : ready ? (
    <Badge tone="good">ready</Badge>
  ) : (
    <Badge tone="warn">not ready</Badge>
  )

const mostInstances = 64

function Rescale({
  name,
  config,
  now,
  onDone,
}: {
  readonly name: string
  readonly config: ModelConfig
  readonly now: number
  readonly onDone: () => void
}): JSX.Element {
  const [count, setCount] = useState(now)
  const ask = (event: Event): void => {
    event.preventDefault()
    const [group] = config['instance_group'] as readonly Group[]
    confirmThen({
      title: `Run ${count} instances of ${name}?`,
      text: `${now} run now. ${count > now ? 'Each further one takes memory of its own.' : 'Those that go end what they have begun.'} The number holds until the model is loaded again from its files.`,
      action: 'Change',
      act: async () => {
        await client.loadModel(name, { config: { ...config, instance_group: [{ ...group, count }] } })
        onDone()
      },
    })
  }
  return (
    <form class="toolbar spaced" onSubmit={ask}>
      <label class="field">
        <span>Instances</span>
        <input
          type="number"
          class="short"
          min={1}
          max={mostInstances}
          value={count}
          onInput={(event) => setCount(Number(event.currentTarget.value))}
        />
      </label>
      <button type="submit" class="quiet" disabled={count === now || count < 1 || count > mostInstances}>
        Change
      </button>
    </form>
  )
}
