import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { may } from './caller-rights.ts'
import { timeText } from './figure-text.ts'
import { models } from './live-store.ts'
import { Card, Choice, Empty, Notice, PageHead, useLoaded } from './parts.tsx'
import { client, messageOf, readFeed } from './server-api.ts'

type Line = {
  readonly number: number
  readonly at: string
  readonly level: string
  readonly source: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly skipped?: number
}

const mostShown = 2000
const levels = ['verbose', 'info', 'warning', 'error']

export function LogsPage(): JSX.Element {
  const [level, setLevel] = useState('info')
  const [model, setModel] = useState('')
  const [text, setText] = useState('')
  const [isPaused, setPaused] = useState(false)
  const { lines, error } = useLines(
    `level=${level}&model=${encodeURIComponent(model)}&q=${encodeURIComponent(text)}`,
    isPaused,
  )
  const names = [...new Set((models.value ?? []).map(({ name }) => name))].sort()
  return (
    <>
      <PageHead
        title="Logs"
        actions={
          <button type="button" class="quiet" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
            {isPaused ? 'Follow' : 'Pause'}
          </button>
        }
      >
        The last lines of the server, and new ones as they come.
      </PageHead>
      <div class="toolbar">
        <Choice label="Level" value={level} of={levels} onChange={setLevel} />
        <Choice label="Model" value={model} of={names} none="all" onChange={setModel} />
        <label class="field grow">
          <span>Text</span>
          <input type="search" maxLength={200} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
      </div>
      {may('logging') ? <Verbosity /> : null}
      {error === '' ? null : <Notice tone="bad">{error}</Notice>}
      <Card>{lines.length === 0 ? <Empty>No line fits.</Empty> : <Lines lines={lines} isFollowing={!isPaused} />}</Card>
    </>
  )
}

/** What the server writes at all, not what is shown here. */
function Verbosity(): JSX.Element {
  const found = useLoaded('logging', () => client.logSettings())
  const [failure, setFailure] = useState('')
  const level = Number(found.value?.['log_verbose_level'] ?? 0)
  const change = async (wanted: number): Promise<void> => {
    try {
      await client.updateLogSettings({ log_verbose_level: wanted })
      setFailure('')
    } catch (reason) {
      setFailure(messageOf(reason))
    }
    found.reload()
  }
  return (
    <>
      <label class="inline soft">
        <input
          type="checkbox"
          checked={level > 0}
          disabled={found.value === null}
          onChange={(event) => void change(event.currentTarget.checked ? 1 : 0)}
        />
        the server writes verbose lines, for everybody
      </label>
      {failure === '' ? null : <Notice tone="bad">{failure}</Notice>}
    </>
  )
}

function Lines({
  lines,
  isFollowing,
}: {
  readonly lines: readonly Line[]
  readonly isFollowing: boolean
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (isFollowing && box.current !== null) box.current.scrollTop = box.current.scrollHeight
  }, [lines, isFollowing])
  return (
    <div class="log" ref={box} tabIndex={0} role="log" aria-live="off" aria-label="Log lines">
      {lines.map(({ number, at, level, source, message, fields, skipped = 0 }) => (
        <div key={number} class="log-line">
          <time dateTime={at}>{timeText(at)}</time>
          <span class={`level ${level}`}>{level}</span>
          <span class="log-text">
            {skipped === 0 ? '' : `(${skipped} lines were left out) `}
            {message}
            <Fields fields={fields} />
          </span>
          <span class="soft source">{source}</span>
        </div>
      ))}
    </div>
  )
}

/** A stack is long: it opens. */
const Fields = ({ fields }: { readonly fields: Line['fields'] }): JSX.Element => (
  <>
    {Object.entries(fields)
      .filter(([name]) => name !== 'stack')
      .map(([name, value]) => (
        <span key={name} class="soft">
          {' '}
          {name}={String(value)}
        </span>
      ))}
    {typeof fields['stack'] !== 'string' ? null : (
      <details class="log-stack">
        <summary>stack</summary>
        <pre tabIndex={0}>{fields['stack']}</pre>
      </details>
    )}
  </>
)

function useLines(query: string, isPaused: boolean): { readonly lines: readonly Line[]; readonly error: string } {
  const [lines, setLines] = useState<readonly Line[]>([])
  const [error, setError] = useState('')
  useEffect(() => {
    if (isPaused) return undefined
    const stop = new AbortController()
    let pending: Line[] = []
    let isPlanned = false
    setLines([])
    const show = (): void => {
      const fresh = pending
      pending = []
      isPlanned = false
      setLines((old) => [...old, ...fresh].slice(-mostShown))
    }
    const follow = async (): Promise<void> => {
      try {
        setError('')
        await readFeed(`/v2/logs?follow=true&${query}`, stop.signal, (line) => {
          pending.push(line as Line)
          if (!isPlanned) requestAnimationFrame(show)
          isPlanned = true
        })
      } catch (reason) {
        if (!stop.signal.aborted) setError(messageOf(reason))
      }
    }
    void follow()
    return () => stop.abort()
  }, [query, isPaused])
  return { lines, error }
}
