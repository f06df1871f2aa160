import type { JSX } from 'preact'
import type { ModelChange } from '../client/web.ts'
import { dateText, msText } from './figure-text.ts'
import { Badge, Card, Empty, useEvery, useLoaded } from './parts.tsx'
import { client } from './server-api.ts'

const tones = { ok: 'good', unchanged: 'calm', failed: 'bad' } as const
const shownChanges = 20

/** Loads and unloads of a model, newest first: who, when, how long, and why it failed. */
export function ModelHistory({ name }: { readonly name: string }): JSX.Element {
  const found = useLoaded(name, () => client.modelHistory(name, { limit: shownChanges }))
  useEvery(5000, found.reload)
  const changes = found.value ?? []
  return (
    <Card title="History">
      {changes.length === 0 ? (
        <Empty>{found.error === '' ? 'Nothing is on record.' : found.error}</Empty>
      ) : (
        <ol class="history">
          {changes.map((change, i) => (
            <li key={`${change.time}${i}`}>
              <time dateTime={change.time}>{dateText(change.time)}</time>
              <span class="history-what">
                <b>{change.action}</b> <Badge tone={tones[change.outcome]}>{change.outcome}</Badge>
              </span>
              <span class="soft">{factsOf(change)}</span>
              {change.reason === undefined ? null : <p class="reason">{change.reason}</p>}
            </li>
          ))}
        </ol>
      )}
    </Card>
  )
}

const factsOf = ({ versions = [], duration_ms, by, key, because, override }: ModelChange): string =>
  [
    versions.length === 0 ? '' : `version ${versions.map(({ version }) => version).join(', ')}`,
    duration_ms > 0 ? msText(duration_ms) : '',
    `by ${key ?? by}`,
    because ?? '',
    override === undefined ? '' : `with other ${override}`,
  ]
    .filter((text) => text !== '')
    .join(' · ')
