import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { may } from './caller-rights.ts'
import { facts, refreshModels } from './live-store.ts'
import { Code, confirmThen, Notice } from './parts.tsx'
import { client } from './server-api.ts'

/** The configuration with everything that the server filled in; another one can be tried without touching a file. */
export function ConfigInForce({ name, config }: { readonly name: string; readonly config: object }): JSX.Element {
  const shown = JSON.stringify(config, null, 2)
  const [text, setText] = useState<string | null>(null)
  const mayLoad = facts.value?.model_control === 'explicit' && may('model-repository')
  if (text === null) {
    return (
      <>
        <Code>{shown}</Code>
        {mayLoad ? (
          <div class="toolbar spaced">
            <button type="button" class="quiet" onClick={() => setText(shown)}>
              Load with another configuration
            </button>
          </div>
        ) : null}
      </>
    )
  }
  const problem = problemOf(text)
  const ask = (event: Event): void => {
    event.preventDefault()
    confirmThen({
      title: `Load ${name} with this configuration?`,
      text: 'Versions that serve now go on until the new ones are ready. The configuration holds until the model is loaded again from its files; no file changes.',
      action: 'Load',
      act: async () => {
        await client.loadModel(name, { config: text })
        setText(null)
        await refreshModels()
      },
    })
  }
  return (
    <form class="stack" onSubmit={ask}>
      <label class="field">
        <span>Configuration, as JSON</span>
        <textarea rows={20} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      {problem === '' ? null : <Notice tone="bad">{problem}</Notice>}
      <div class="toolbar">
        <button type="submit" class="main" disabled={problem !== ''}>
          Load with this configuration
        </button>
        <button type="button" class="quiet" onClick={() => setText(null)}>
          Cancel
        </button>
      </div>
    </form>
  )
}

function problemOf(text: string): string {
  try {
    const value = JSON.parse(text) as unknown
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? '' : 'A configuration is an object.'
  } catch (reason) {
    return `This is no JSON: ${(reason as Error).message}`
  }
}
