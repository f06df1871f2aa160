// What leaves the server about rollouts: notifications, questions to webhooks, queries to Prometheus. Everything has a time-out
// and a bound, and no request ever waits for any of it.

import { createHmac } from 'node:crypto'
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { PromqlRule } from '../rollouts/judge/metric-rule.ts'
import type { Notification, NotifyEvent } from '../rollouts/rollout-plan.ts'
import { askUrl } from './ask-url.ts'
import type { ReleaseRecord } from './release-record.ts'

type WebhookVerdict = { readonly verdict: 'pass' | 'fail' | 'unsure'; readonly why: string }

type OutboxSettings = {
  /** `--prometheus-url`; '' for none. */
  readonly prometheusUrl: string
  /** The environment variables that may sign, with their values. */
  readonly secrets: Readonly<Record<string, string | undefined>>
}

const notifyTimeoutNs = 5e9
const queryTimeoutNs = 5e9
/** The pauses between the tries of one notification. */
const retryPausesNs = [1e9, 5e9, 30e9]
/** Notifications that have not arrived yet. Beyond this many the next one is dropped and said in the log. */
const mostUnderWay = 100

export class Outbox {
  readonly #clock: Clock
  readonly #log: Log
  readonly #settings: OutboxSettings
  #underWay = 0
  /** For metrics: notifications that no server took. */
  lostCount = 0

  constructor(clock: Clock, log: Log, settings: OutboxSettings) {
    this.#clock = clock
    this.#log = log.from('outbox.ts')
    this.#settings = settings
  }

  get hasPrometheus(): boolean {
    return this.#settings.prometheusUrl !== ''
  }

  /** True: the operator lets notifications be signed with this environment variable. */
  maySignWith(secretEnv: string): boolean {
    return secretEnv === '' || Object.hasOwn(this.#settings.secrets, secretEnv)
  }

  /** Never throws and never waits. */
  notify(record: ReleaseRecord, event: NotifyEvent, why: string): void {
    for (const target of record.plan.notify) {
      if (!target.events.includes(event)) continue
      this.post(target, `rollout '${record.name}'`, this.#message(record, event, why))
    }
  }

  /** Never throws and never waits. `about` is for the log. */
  post(target: Pick<Notification, 'url' | 'secretEnv'>, about: string, body: string): void {
    if (this.#underWay >= mostUnderWay) {
      this.#lose(target.url, about, `${mostUnderWay} others are under way`)
      return
    }
    this.#underWay++
    void this.#deliver(target, about, body).finally(() => this.#underWay--)
  }

  #message({ name, model, arms, state }: ReleaseRecord, event: NotifyEvent, why: string): string {
    const [stable, candidate] = arms
    return JSON.stringify({
      event,
      rollout: name,
      model,
      state: state.phase,
      stable: stable?.version ?? '',
      candidate: candidate?.version ?? '',
      reason: why,
      time: new Date(this.#clock.wallMs()).toISOString(),
    })
  }

  async #deliver(
    { url, secretEnv }: Pick<Notification, 'url' | 'secretEnv'>,
    about: string,
    body: string,
  ): Promise<void> {
    const headers = { 'content-type': 'application/json', ...this.#signature(secretEnv, body) }
    for (let attempt = 0; ; attempt++) {
      let problem: string
      try {
        const { status } = await askUrl(this.#clock, { url, method: 'POST', headers, body, timeoutNs: notifyTimeoutNs })
        if (status < 300) return
        problem = `status ${status}`
        // The server has understood and does not want it.
        if (status >= 400 && status < 500 && status !== 408 && status !== 429) attempt = retryPausesNs.length
      } catch (reason) {
        problem = reasonText(reason, url)
      }
      const pauseNs = retryPausesNs[attempt]
      if (pauseNs === undefined) {
        this.#lose(url, about, problem)
        return
      }
      await new Promise<void>((resolve) => this.#clock.after(pauseNs, resolve))
    }
  }

  /** `sha256=<HMAC of the body>`, as GitHub signs its webhooks. */
  #signature(secretEnv: string, body: string): Readonly<Record<string, string>> {
    const secret = this.maySignWith(secretEnv) ? (this.#settings.secrets[secretEnv] ?? '') : ''
    if (secretEnv !== '' && secret === '') this.#log.warning(`the environment variable ${secretEnv} is empty, or not listed in --notify-secret-env: a notification is not signed`) // prettier-ignore
    if (secret === '') return {}
    return { 'x-galatea-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}` }
  }

  #lose(url: string, about: string, problem: string): void {
    this.lostCount++
    this.#log.warning(`a notification of ${about} could not be delivered to ${shownUrl(url)}: ${problem}`)
  }

  /** Never rejects: a webhook that cannot be asked is unsure. */
  async askWebhook(record: ReleaseRecord, url: string, timeoutNs: number): Promise<WebhookVerdict> {
    const body = this.#message(record, 'step', 'a step asks')
    const headers = { 'content-type': 'application/json' }
    try {
      const { status, text } = await askUrl(this.#clock, { url, method: 'POST', headers, body, timeoutNs })
      if (status !== 200) return unsure(`${shownUrl(url)} answered with status ${status}, expected 200`)
      const { verdict, reason = '' } = (JSON.parse(text) ?? {}) as { verdict?: unknown; reason?: unknown }
      if (verdict !== 'pass' && verdict !== 'fail' && verdict !== 'unsure') {
        return unsure(`${shownUrl(url)} answered without a verdict, expected {"verdict": "pass"}, "fail" or "unsure"`)
      }
      return { verdict, why: typeof reason === 'string' && reason !== '' ? reason.slice(0, 500) : shownUrl(url) }
    } catch (reason) {
      return unsure(`${shownUrl(url)} could not be asked: ${reasonText(reason, url)}`)
    }
  }

  /** The first value of the query's answer; null: the query has no result now. Rejects when Prometheus cannot be asked. */
  async query({ query }: PromqlRule, names: Readonly<Record<string, string>>): Promise<number | null> {
    const filled = query.replaceAll(/\{\{ *(\w+) *\}\}/g, (whole, name: string) => escaped(names[name] ?? whole))
    const base = this.#settings.prometheusUrl.replace(/\/+$/, '')
    const url = `${base}/api/v1/query?query=${encodeURIComponent(filled)}`
    const { status, text } = await askUrl(this.#clock, { url, method: 'GET', timeoutNs: queryTimeoutNs })
    const answer = JSON.parse(text) as {
      status?: string
      error?: string
      data?: { resultType?: string; result?: unknown }
    }
    if (answer.status !== 'success') throw new ServerError('UNAVAILABLE', answer.error ?? `status ${status}`)
    const { resultType, result } = answer.data ?? {}
    const sample = resultType === 'scalar' ? result : (result as readonly { readonly value?: unknown }[] | undefined)?.[0]?.value // prettier-ignore
    if (sample === undefined) return null
    const value = Number((sample as readonly unknown[])[1])
    return Number.isNaN(value) ? null : value
  }
}

const unsure = (why: string): WebhookVerdict => ({ verdict: 'unsure', why })

/** Names stand inside the quotes of a label. */
const escaped = (text: string): string => text.replaceAll(/["\\\n]/g, (mark) => (mark === '\n' ? '\\n' : `\\${mark}`))

/** A query may hold a secret, and so may any part of a path: whoever knows the address of a chat's webhook may write there. */
function shownUrl(text: string): string {
  const url = URL.parse(text)
  return url === null ? 'an address' : `${url.origin}/${url.pathname === '/' ? '' : '…'}`
}

/** What fetch says is `fetch failed`; why stands in its cause. Some of its errors repeat the address. */
const reasonText = (reason: unknown, url: string): string =>
  messageOf(reason instanceof Error && reason.cause !== undefined ? reason.cause : reason).replaceAll(
    url,
    shownUrl(url),
  )
