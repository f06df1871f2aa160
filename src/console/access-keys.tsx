// API keys: made, rotated and ended here. A new key shows once.

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { dateText } from './figure-text.ts'
import { Badge, Card, Code, confirmThen, Empty, Notice, Table, useLoaded } from './parts.tsx'
import { call, messageOf } from './server-api.ts'

type ListedKey = {
  readonly id: string
  readonly name: string
  readonly role: string
  readonly tenant: string
  readonly addresses: readonly string[]
  readonly state: string
  readonly created: string | null
  readonly expires: string | null
}

type NewKey = { readonly key: string; readonly id: string; readonly name: string }

const tones: Readonly<Record<string, 'good' | 'bad' | 'calm' | 'warn'>> = {
  active: 'good',
  expired: 'calm',
  revoked: 'bad',
}
const keyPath = (id: string, action: string): string => `/v2/access/keys/${encodeURIComponent(id)}/${action}`

export function KeysCard(): JSX.Element {
  const found = useLoaded(
    'keys',
    async () => (await call('/v2/access/keys')) as { readonly keys: readonly ListedKey[] },
  )
  const [isNew, setNew] = useState(false)
  const [made, setMade] = useState<NewKey | null>(null)
  const keys = found.value?.keys ?? []
  const show = (key: NewKey): void => {
    setMade(key)
    setNew(false)
    found.reload()
  }
  return (
    <Card
      title="Keys"
      aside={
        <button type="button" class="main small" aria-expanded={isNew} onClick={() => setNew(!isNew)}>
          New key
        </button>
      }
    >
      {isNew ? (
        <NewKeyForm roles={[...new Set(keys.map(({ role }) => role))].filter((role) => role !== '')} onMade={show} />
      ) : null}
      {made === null ? null : (
        <Notice tone="good">
          <b>The key of {made.name}.</b> It is shown now and never again: copy it to where it is needed.
          <Code>{made.key}</Code>
          <button type="button" class="quiet small" onClick={() => setMade(null)}>
            I have it
          </button>
        </Notice>
      )}
      {keys.length === 0 ? (
        <Empty>
          {found.error === '' ? (found.isLoading ? 'Asking the server…' : 'There is no key.') : found.error}
        </Empty>
      ) : (
        <Table label="Keys" head={['name', 'id', 'role', 'tenant', 'state', 'made', 'ends', 'act']}>
          {keys.map((key) => (
            <tr key={key.id}>
              <th scope="row">{key.name}</th>
              <td>
                <code>{key.id}</code>
              </td>
              <td>{key.role === '' ? 'by grants' : key.role}</td>
              <td>{key.tenant === '' ? '–' : key.tenant}</td>
              <td>
                <Badge tone={tones[key.state] ?? 'calm'}>{key.state}</Badge>
              </td>
              <td>{key.created === null ? '–' : dateText(key.created)}</td>
              <td>{key.expires === null ? 'never' : dateText(key.expires)}</td>
              <td class="row-actions">
                {key.state === 'active' ? <KeyActions item={key} onMade={show} onEnded={found.reload} /> : null}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  )
}

function KeyActions({
  item: { id, name },
  onMade,
  onEnded,
}: {
  readonly item: ListedKey
  readonly onMade: (key: NewKey) => void
  readonly onEnded: () => void
}): JSX.Element {
  const rotate = (): void =>
    confirmThen({
      title: `Rotate the key of ${name}?`,
      text: 'A new key with the same rights is made. The old one works for another 24 hours, so that clients can change over.',
      action: 'Rotate',
      act: async () => onMade((await call(keyPath(id, 'rotate'), { overlap: '24h' })) as NewKey),
    })
  const revoke = (): void =>
    confirmThen({
      title: `Revoke the key of ${name}?`,
      text: 'Requests with this key are refused from now on. This cannot be taken back.',
      action: 'Revoke',
      isDangerous: true,
      typed: name,
      act: async () => {
        await call(keyPath(id, 'revoke'), {})
        onEnded()
      },
    })
  return (
    <>
      <button type="button" class="quiet small" onClick={rotate}>
        Rotate<span class="hidden"> {name}</span>
      </button>
      <button type="button" class="quiet small" onClick={revoke}>
        Revoke<span class="hidden"> {name}</span>
      </button>
    </>
  )
}

const lifetimes: readonly (readonly [value: string, text: string])[] = [
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['365d', 'a year'],
  ['', 'for ever'],
]

function NewKeyForm({
  roles,
  onMade,
}: {
  readonly roles: readonly string[]
  readonly onMade: (key: NewKey) => void
}): JSX.Element {
  const [wish, setWish] = useState({ name: '', role: '', tenant: '', expires: '90d' })
  const [failure, setFailure] = useState('')
  const make = async (event: Event): Promise<void> => {
    event.preventDefault()
    const given = Object.entries(wish).filter(([, value]) => value.trim() !== '')
    try {
      onMade((await call('/v2/access/keys', Object.fromEntries(given))) as NewKey)
    } catch (reason) {
      setFailure(messageOf(reason))
    }
  }
  const field = (name: 'name' | 'role' | 'tenant', title: string, hint: string): JSX.Element => (
    <label class="field">
      <span>{title}</span>
      <input
        type="text"
        value={wish[name]}
        placeholder={hint}
        autocomplete="off"
        {...(name === 'role' ? { list: 'known-roles' } : {})}
        onInput={(event) => setWish({ ...wish, [name]: event.currentTarget.value })}
      />
    </label>
  )
  return (
    <form class="key-maker" aria-label="New key" onSubmit={(event) => void make(event)}>
      {field('name', 'Name', 'web-1')}
      {field('role', 'Role', 'as the grants say')}
      {field('tenant', 'Tenant', 'as the grants say')}
      <label class="field">
        <span>Works for</span>
        <select value={wish.expires} onChange={(event) => setWish({ ...wish, expires: event.currentTarget.value })}>
          {lifetimes.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <datalist id="known-roles">
        {roles.map((role) => (
          <option key={role} value={role} />
        ))}
      </datalist>
      <button type="submit" class="main" disabled={wish.name.trim() === ''}>
        Make the key
      </button>
      {failure === '' ? null : <Notice tone="bad">{failure}</Notice>}
    </form>
  )
}
