// Who the server takes the visitor for. Servers without access control have no such page.

import { effect, signal } from '@preact/signals'
import type { JSX } from 'preact'
import { facts } from './live-store.ts'
import { Card, Code, Empty, PageHead, useLoaded } from './parts.tsx'
import { accessKey, call } from './server-api.ts'

type Me = Readonly<Record<string, unknown>>

/** Null: the server has no access control, or does not know the visitor. */
export const whoAmI = signal<Me | null>(null)

effect(() => {
  // The key is named here so that another key asks again.
  const key = accessKey.value
  if (facts.value?.access !== true && key === '') return
  call('/v2/access/me').then(
    (me) => {
      whoAmI.value = me as Me
    },
    () => {
      whoAmI.value = null
    },
  )
})

export function AccessPage(): JSX.Element {
  const usage = useLoaded('usage', async () => (await call('/v2/access/usage')) as unknown)
  const me = whoAmI.value
  return (
    <>
      <PageHead title="Access">Who you are to this server, and what you may do.</PageHead>
      <div class="columns even">
        <Card title="You">
          {me === null ? (
            <Empty>The server has no access control, or does not know you.</Empty>
          ) : (
            <dl class="facts">
              {Object.entries(me).map(([name, value]) => (
                <div key={name}>
                  <dt>{name.replaceAll('_', ' ')}</dt>
                  <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
                </div>
              ))}
            </dl>
          )}
        </Card>
        <Card title="Use">
          {usage.value === null ? <Empty>{usage.error}</Empty> : <Code>{JSON.stringify(usage.value, null, 2)}</Code>}
        </Card>
      </div>
    </>
  )
}
