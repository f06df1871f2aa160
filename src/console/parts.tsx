// The small parts that every page is made of.

import { signal } from '@preact/signals'
import type { ComponentChildren, JSX, RefObject } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { messageOf } from './server-api.ts'

export function PageHead({
  title,
  children,
  actions,
}: {
  readonly title: ComponentChildren
  readonly children?: ComponentChildren
  readonly actions?: ComponentChildren
}): JSX.Element {
  return (
    <header class="page-head">
      <div>
        <h1 id="page-title" tabIndex={-1}>
          {title}
        </h1>
        {children === undefined ? null : <p class="lead">{children}</p>}
      </div>
      {actions === undefined ? null : <div class="actions">{actions}</div>}
    </header>
  )
}

export function Card({
  title,
  children,
  aside,
  wide = false,
}: {
  readonly title?: string
  readonly children: ComponentChildren
  readonly aside?: ComponentChildren
  readonly wide?: boolean
}): JSX.Element {
  return (
    <section class={wide ? 'card wide' : 'card'} aria-label={title}>
      {title === undefined ? null : (
        <div class="card-head">
          <h2>{title}</h2>
          {aside}
        </div>
      )}
      {children}
    </section>
  )
}

type Tone = 'good' | 'warn' | 'bad' | 'calm' | 'busy'

const marks: Readonly<Record<Tone, string>> = { good: '●', warn: '▲', bad: '■', calm: '○', busy: '◐' }

/** Word and mark carry the meaning; the colour only repeats it. */
export const Badge = ({
  tone,
  children,
}: {
  readonly tone: Tone
  readonly children: ComponentChildren
}): JSX.Element => (
  <span class={`badge ${tone}`}>
    <span aria-hidden="true">{marks[tone]}</span> {children}
  </span>
)

const stateTones: Readonly<Record<string, Tone>> = {
  READY: 'good',
  LOADING: 'busy',
  UNLOADING: 'busy',
  UNAVAILABLE: 'bad',
}

export const StateBadge = ({
  state,
  reason = '',
}: {
  readonly state: string
  readonly reason?: string
}): JSX.Element =>
  state === '' || (state === 'UNAVAILABLE' && reason === 'unloaded') ? (
    <Badge tone="calm">not loaded</Badge>
  ) : (
    <Badge tone={stateTones[state] ?? 'calm'}>{state.toLowerCase()}</Badge>
  )

export const Notice = ({
  tone,
  children,
}: {
  readonly tone: Tone
  readonly children: ComponentChildren
}): JSX.Element => (
  <div class={`notice ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
    <span aria-hidden="true">{marks[tone]}</span>
    <div>{children}</div>
  </div>
)

export const Empty = ({ children }: { readonly children: ComponentChildren }): JSX.Element => (
  <p class="empty">{children}</p>
)

export const Code = ({ children }: { readonly children: string }): JSX.Element => {
  const [isCopied, setCopied] = useState(false)
  const copy = (): void => {
    void navigator.clipboard.writeText(children).then(() => {
      setCopied(true)
      setTimeout(() => setCopied(false), 1500)
    })
  }
  return (
    <div class="code">
      <pre tabIndex={0}>{children}</pre>
      <button type="button" class="quiet small" onClick={copy}>
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </div>
  )
}

/** What a tab list shows; one tab at a time, arrows move between them. */
export function Tabs({
  label,
  tabs,
}: {
  readonly label: string
  readonly tabs: readonly (readonly [name: string, body: () => ComponentChildren])[]
}): JSX.Element {
  const [chosen, choose] = useState(0)
  const list = useRef<HTMLDivElement>(null)
  const id = label.replaceAll(/\W+/g, '-').toLowerCase()
  const move = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (step === 0) return
    const next = (chosen + step + tabs.length) % tabs.length
    choose(next)
    list.current?.querySelectorAll('button')[next]?.focus()
  }
  return (
    <div>
      <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
        {tabs.map(([name], i) => (
          <button
            type="button"
            role="tab"
            key={name}
            id={`${id}-tab-${i}`}
            aria-controls={`${id}-panel`}
            aria-selected={i === chosen}
            tabIndex={i === chosen ? 0 : -1}
            onClick={() => choose(i)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-tab-${chosen}`} class="tab-panel">
        {tabs[chosen]?.[1]()}
      </div>
    </div>
  )
}

/** One of a few ways, beside each other. */
export function Choices<Name extends string>({
  label,
  names,
  chosen,
  onChoose,
}: {
  readonly label: string
  readonly names: readonly (readonly [value: Name, text: string])[]
  readonly chosen: Name
  readonly onChoose: (name: Name) => void
}): JSX.Element {
  const group = useId()
  return (
    <div class="choices" role="radiogroup" aria-label={label}>
      {names.map(([value, text]) => (
        <label key={value} class={value === chosen ? 'chosen' : ''}>
          <input type="radio" name={group} checked={value === chosen} onChange={() => onChoose(value)} />
          {text}
        </label>
      ))}
    </div>
  )
}

type Question = {
  readonly title: string
  readonly text: ComponentChildren
  readonly action: string
  /** What must be typed before the button works; '' for nothing. */
  readonly typed?: string
  readonly isDangerous?: boolean
  readonly act: () => Promise<void>
}

const question = signal<Question | null>(null)

/** Asks before something is done, and says what went wrong when it was. */
export function confirmThen(asked: Question): void {
  question.value = asked
}

export function Confirmation(): JSX.Element | null {
  const asked = question.value
  return asked === null ? null : <QuestionDialog asked={asked} />
}

function QuestionDialog({ asked }: { readonly asked: Question }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null)
  const [typed, setTyped] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState('')
  useEffect(() => dialog.current?.showModal(), [])
  const close = (): void => {
    dialog.current?.close()
    question.value = null
  }
  const act = async (): Promise<void> => {
    setBusy(true)
    setFailure('')
    try {
      await asked.act()
      close()
    } catch (reason) {
      setFailure(messageOf(reason))
    }
    setBusy(false)
  }
  const isAllowed = (asked.typed ?? '') === '' || typed === asked.typed
  return (
    <dialog ref={dialog} onCancel={close} aria-labelledby="question-title">
      <h2 id="question-title">{asked.title}</h2>
      <div class="dialog-text">{asked.text}</div>
      {(asked.typed ?? '') === '' ? null : (
        <label class="field">
          <span>
            Type <b>{asked.typed}</b> to go on
          </span>
          <input value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" />
        </label>
      )}
      {failure === '' ? null : <Notice tone="bad">{failure}</Notice>}
      <div class="dialog-actions">
        <button type="button" class="quiet" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class={asked.isDangerous === true ? 'danger' : 'main'}
          disabled={!isAllowed || isBusy}
          onClick={() => void act()}
        >
          {isBusy ? 'Working…' : asked.action}
        </button>
      </div>
    </dialog>
  )
}

type Loaded<Value> = {
  readonly value: Value | null
  readonly error: string
  readonly isLoading: boolean
  readonly reload: () => void
}

/** Loads again when `key` changes or `reload` is called. The old value stays until the new one is there. */
export function useLoaded<Value>(key: string, load: () => Promise<Value>): Loaded<Value> {
  const [state, setState] = useState<{ key: string; value: Value | null; error: string; isLoading: boolean }>({
    key: '',
    value: null,
    error: '',
    isLoading: true,
  })
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    let isCurrent = true
    load().then(
      (value) => isCurrent && setState({ key, value, error: '', isLoading: false }),
      (reason: unknown) =>
        isCurrent &&
        setState((old) => ({
          key,
          value: old.key === key ? old.value : null,
          error: messageOf(reason),
          isLoading: false,
        })),
    )
    return () => {
      isCurrent = false
    }
  }, [key, turn])
  const isOld = state.key !== key
  return {
    value: isOld ? null : state.value,
    error: isOld ? '' : state.error,
    isLoading: isOld || state.isLoading,
    reload: () => setTurn(turn + 1),
  }
}

/** Calls `act` every so often while the page is shown. */
export function useEvery(ms: number, act: () => void): void {
  const latest = useRef(act)
  latest.current = act
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) latest.current()
    }, ms)
    return () => clearInterval(timer)
  }, [ms])
}

const headClass = (name: string, wideOnly: readonly string[]): string =>
  [wideOnly.includes(name.replace('#', '')) ? 'wide-only' : '', name.startsWith('#') ? 'number' : ''].join(' ').trim()

const narrow = matchMedia('(width <= 560px)')
const isNarrow = signal(narrow.matches)
narrow.addEventListener('change', () => {
  isNarrow.value = narrow.matches
})

/** On narrow screens a row is a block, and each of its cells says which column it is of. */
function useNamedCells(head: readonly ComponentChildren[]): RefObject<HTMLTableElement | null> {
  const table = useRef<HTMLTableElement>(null)
  const isWanted = isNarrow.value
  useEffect(() => {
    if (!isWanted) return
    for (const row of table.current?.tBodies[0]?.rows ?? []) {
      for (const [i, cell] of [...row.cells].entries()) {
        const name = head[i]
        if (cell.tagName === 'TD' && typeof name === 'string') cell.dataset['name'] = name.replace('#', '')
      }
    }
  })
  return table
}

export const Table = ({
  label,
  head,
  wideOnly = [],
  children,
}: {
  readonly label: string
  /** A name that begins with '#' heads a column of numbers, which stand below each other at their ends (class `number`). */
  readonly head: readonly ComponentChildren[]
  /** The columns that narrow screens leave out. Their cells have the class `wide-only` too. */
  readonly wideOnly?: readonly string[]
  readonly children: ComponentChildren
}): JSX.Element => {
  const table = useNamedCells(head)
  return (
    <div class="table" role="region" aria-label={label} tabIndex={0}>
      <table ref={table}>
        <thead>
          <tr>
            {head.map((cell, i) => (
              <th scope="col" key={i} class={typeof cell === 'string' ? headClass(cell, wideOnly) : ''}>
                {typeof cell === 'string' ? cell.replace('#', '') : cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

/** A field that chooses one of `of`. `none` is shown for the empty text, where that may be chosen, too. */
export const Choice = ({
  label,
  value,
  of,
  none,
  onChange,
}: {
  readonly label: string
  readonly value: string
  readonly of: readonly string[]
  readonly none?: string
  readonly onChange: (value: string) => void
}): JSX.Element => (
  <label class="field">
    <span>{label}</span>
    <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {none === undefined ? null : <option value="">{none}</option>}
      {of.map((each) => (
        <option key={each}>{each}</option>
      ))}
    </select>
  </label>
)
