// A card that makes something by one call of the API: fields at the left, the same call as JSON at the right.

import type { ComponentChildren, JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Card, Code, Notice } from './parts.tsx'
import { call, messageOf } from './server-api.ts'

export function NewCard(props: {
  readonly title: string
  readonly path: string
  /** What the API can do beyond this form. */
  readonly more?: string
  readonly body: object
  readonly isWhole: boolean
  readonly onDone: () => void
  readonly children: ComponentChildren
}): JSX.Element {
  const [failure, setFailure] = useState('')
  const start = async (event: Event): Promise<void> => {
    event.preventDefault()
    try {
      await call(props.path, props.body)
      props.onDone()
    } catch (reason) {
      setFailure(messageOf(reason))
    }
  }
  return (
    <Card title={props.title}>
      <form class="columns even flush" onSubmit={(event) => void start(event)}>
        <div class="stack">
          {props.children}
          {failure === '' ? null : <Notice tone="bad">{failure}</Notice>}
          <button type="submit" class="main" disabled={!props.isWhole}>
            Start
          </button>
        </div>
        <div>
          <p class="soft">
            The same by the API{props.more ?? ''}: POST {props.path}
          </p>
          <Code>{JSON.stringify(props.body, null, 2)}</Code>
        </div>
      </form>
    </Card>
  )
}
