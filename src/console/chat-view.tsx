import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { streamChat, type ChatMessage, type ChatProgress, type ChatSettings } from './chat-call.ts'
import { chatCurl, chatPython, chatTypescript } from './chat-snippets.ts'
import { msText } from './figure-text.ts'
import { Card, Code, Empty, Notice, Tabs } from './parts.tsx'
import { accessKey, messageOf } from './server-api.ts'

const usual: ChatSettings = { temperature: null, mostTokens: null }
const [mostTokens, hottest] = [32_768, 2]

/** A conversation with a language model. It lives in this page only. */
export function ChatView({ model }: { readonly model: string }): JSX.Element {
  const [system, setSystem] = useState('')
  const server = { origin: location.origin, hasKey: accessKey.value !== '' }
  const [settings, setSettings] = useState(usual)
  const [messages, setMessages] = useState<readonly ChatMessage[]>([])
  const [progress, setProgress] = useState<ChatProgress | null>(null)
  const [typed, setTyped] = useState('')
  const [problem, setProblem] = useState('')
  const running = useRef<AbortController | null>(null)
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => () => running.current?.abort(), [])
  useEffect(() => end.current?.scrollIntoView({ block: 'nearest' }), [progress, messages])
  const isBusy = running.current !== null
  const asked = (more: readonly ChatMessage[]): ChatMessage[] => [
    ...(system.trim() === '' ? [] : [{ role: 'system', content: system } as const]),
    ...more,
  ]
  const send = async (): Promise<void> => {
    const next = [...messages, { role: 'user', content: typed } as const]
    const stop = new AbortController()
    running.current = stop
    let latest: ChatProgress | null = null
    setMessages(next)
    setTyped('')
    setProblem('')
    try {
      await streamChat(model, asked(next), settings, stop.signal, (now) => {
        latest = now
        setProgress(now)
      })
    } catch (reason) {
      if (!stop.signal.aborted) setProblem(messageOf(reason))
    }
    running.current = null
    const text = (latest as ChatProgress | null)?.text ?? ''
    setMessages(text === '' ? next : [...next, { role: 'assistant', content: text }])
  }
  const shown = isBusy && progress !== null && progress.totalMs === null ? progress.text : ''
  return (
    <>
      <div class="columns">
        <Card title={`Talk to ${model}`}>
          <div class="chat" role="log" aria-label="Conversation" tabIndex={0}>
            {messages.length === 0 ? <Empty>Nothing has been said yet.</Empty> : null}
            {messages.map(({ role, content }, i) => (
              <Bubble key={i} role={role} text={content} />
            ))}
            {isBusy ? <Bubble role="assistant" text={shown === '' ? '…' : shown} /> : null}
            <div ref={end} />
          </div>
          {problem === '' ? null : <Notice tone="bad">{problem}</Notice>}
          <p class="soft" role="status">
            {progress === null ? '' : progressText(progress)}
          </p>
          <form
            class="chat-form"
            onSubmit={(event) => {
              event.preventDefault()
              void send()
            }}
          >
            <textarea
              rows={2}
              aria-label="What to say"
              placeholder="Say something. Enter sends it."
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
                event.preventDefault()
                if (!isBusy && typed.trim() !== '') void send()
              }}
            />
            {isBusy ? (
              <button type="button" class="danger" onClick={() => running.current?.abort()}>
                Stop
              </button>
            ) : (
              <button type="submit" class="main" disabled={typed.trim() === ''}>
                Send
              </button>
            )}
          </form>
        </Card>
        <Card title="Settings">
          <div class="stack">
            <label class="field">
              <span>Who the model is to be</span>
              <textarea rows={4} value={system} onInput={(event) => setSystem(event.currentTarget.value)} />
            </label>
            <label class="field">
              <span>Temperature</span>
              <input
                type="number"
                min={0}
                max={hottest}
                step="0.1"
                placeholder="as the model does"
                value={settings.temperature ?? ''}
                onInput={(event) => setSettings({ ...settings, temperature: within(event, 0, hottest) })}
              />
            </label>
            <label class="field">
              <span>Tokens of an answer, at most</span>
              <input
                type="number"
                min={1}
                max={mostTokens}
                placeholder="as the model does"
                value={settings.mostTokens ?? ''}
                step={1}
                onChange={(event) => setSettings({ ...settings, mostTokens: within(event, 1, mostTokens) })}
              />
            </label>
            <button
              type="button"
              class="quiet"
              disabled={isBusy || messages.length === 0}
              onClick={() => {
                setMessages([])
                setProgress(null)
              }}
            >
              New conversation
            </button>
          </div>
        </Card>
      </div>
      <Card title="The same call">
        <Tabs
          label="Language of the chat"
          tabs={[
            ['curl', () => <Code>{chatCurl(server, model, callOf(asked(messages)), settings)}</Code>],
            ['Python', () => <Code>{chatPython(server, model, callOf(asked(messages)), settings)}</Code>],
            ['TypeScript', () => <Code>{chatTypescript(server, model, callOf(asked(messages)), settings)}</Code>],
          ]}
        />
      </Card>
    </>
  )
}

/** Up to the last question; a first one where nothing was asked. */
function callOf(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const last = messages.findLastIndex(({ role }) => role === 'user')
  return last < 0 ? [...messages, { role: 'user', content: 'Hello' }] : messages.slice(0, last + 1)
}

/** Null for an empty field. */
const within = (event: { readonly currentTarget: HTMLInputElement }, least: number, most: number): number | null =>
  event.currentTarget.value === '' ? null : Math.min(most, Math.max(least, Number(event.currentTarget.value) || least))

const speakers: Readonly<Record<ChatMessage['role'], string>> = { user: 'You', assistant: 'Model', system: 'System' }

const Bubble = ({ role, text }: { readonly role: ChatMessage['role']; readonly text: string }): JSX.Element => (
  <div class={`bubble ${role}`}>
    <span class="soft">{speakers[role]}</span>
    <p>{text}</p>
  </div>
)

function progressText({ firstMs, totalMs, tokens, finish }: ChatProgress): string {
  const rate = totalMs === null || firstMs === null || tokens < 2 ? '' : `, ${((tokens - 1) / Math.max(1e-3, (totalMs - firstMs) / 1000)).toFixed(1)} per second` // prettier-ignore
  const cut = finish === 'length' ? ', cut at the limit' : ''
  return `first token after ${msText(firstMs)}, ${tokens} tokens${rate}${cut}`
}
