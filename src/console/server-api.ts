// Calls to the server that the page came from. The key, where one is needed, lives in this tab and in one header.

import { signal } from '@preact/signals'
import { createHttpClient } from '../client/web.ts'
import { serverSentEvents } from '../client/http/server-sent-events.ts'

const keyName = 'galatea-key'

/** '' for none. */
export const accessKey = signal(sessionStorage.getItem(keyName) ?? '')

/** What the server said when it refused a call for want of a key; '' while nothing was refused. */
export const keyRefusal = signal('')

export function setAccessKey(key: string): void {
  accessKey.value = key
  keyRefusal.value = ''
  if (key === '') sessionStorage.removeItem(keyName)
  else sessionStorage.setItem(keyName, key)
}

export class ServerRefusal extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const keyHeaders = (): Record<string, string> =>
  accessKey.value === '' ? {} : { authorization: `Bearer ${accessKey.value}` }

export async function keyedFetch(url: string, init: RequestInit = {}): Promise<Response> {
  const key = accessKey.value
  const headers = { ...(init.headers as Record<string, string> | undefined), ...keyHeaders() }
  const response = await fetch(url, { ...init, headers, credentials: 'omit', cache: 'no-store' })
  // An answer that comes late says nothing of a key that was typed since.
  if (response.status === 401 && key === accessKey.value) {
    keyRefusal.value =
      key === '' ? 'The server asks for a key.' : 'The server does not take this key. It asks for a key.'
  }
  return response
}

export const client = createHttpClient({ url: location.origin, fetch: keyedFetch, retries: 0 })

/** JSON of the server, or a refusal with its words. */
export async function call(path: string, body?: unknown): Promise<unknown> {
  const init: RequestInit =
    body === undefined
      ? {}
      : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  const response = await keyedFetch(path, init)
  const text = await response.text()
  if (!response.ok) throw new ServerRefusal(response.status, messageOfAnswer(text) ?? `status ${response.status}`)
  return text === '' ? null : (JSON.parse(text) as unknown)
}

/** Any call, for "try it" pages: what came back, whatever it is. */
export async function rawCall(
  method: string,
  path: string,
  body: string | null,
): Promise<{ readonly status: number; readonly ms: number; readonly type: string; readonly text: string }> {
  const started = performance.now()
  const init = body === null ? { method } : { method, body, headers: { 'content-type': 'application/json' } }
  const response = await keyedFetch(path, init)
  const text = await response.text()
  const type = response.headers.get('content-type') ?? ''
  return { status: response.status, ms: performance.now() - started, type, text }
}

/** Events until the server ends the feed or the signal ends the call. Throws when there is no connection. */
export async function readFeed(path: string, stop: AbortSignal, onData: (data: unknown) => void): Promise<void> {
  const response = await keyedFetch(path, { signal: stop })
  if (!response.ok || response.body === null) {
    throw new ServerRefusal(response.status, messageOfAnswer(await response.text()) ?? `status ${response.status}`)
  }
  for await (const data of serverSentEvents(response.body)) onData(JSON.parse(data))
}

function messageOfAnswer(text: string): string | null {
  try {
    const { error } = JSON.parse(text) as { error?: unknown }
    return typeof error === 'string' ? error : null
  } catch {
    return text === '' ? null : text.slice(0, 500)
  }
}

export const messageOf = (reason: unknown): string => (reason instanceof Error ? reason.message : String(reason))
