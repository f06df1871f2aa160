// Chat templates come with models, and a hostile one may never end. So a thread renders them, with a bound of time and memory;
// a thread that does not answer in time is ended and replaced.

import path from 'node:path'
import { Worker as Thread } from 'node:worker_threads'
import type { Cancel, Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { badRequest } from '../../protocol/openai/openai-problem.ts'
import type { JsonObject } from '../../protocol/openai/request-fields.ts'
import type { TemplateJob, TemplateResult } from './template-worker.ts'

export type ChatToRender = { readonly template: string; readonly fields: JsonObject }
type RenderDone = (error: unknown, text: string | null) => void

type TemplateSettings = {
  readonly timeoutMs: number
  readonly maxWaiting: number
  readonly memoryMb: number
}

/** A template of a large model takes 10 ms for a long chat; the rest is for a machine that is busy. */
const defaultSettings: TemplateSettings = { timeoutMs: 5000, maxWaiting: 1024, memoryMb: 128 }

const longestTemplate = 256 * 1024
const entry = new URL(`./template-worker${path.extname(import.meta.url)}`, import.meta.url)

type Waiting = { readonly chat: ChatToRender; readonly done: RenderDone; isCancelled: boolean }

export class ChatTemplates {
  readonly #clock: Clock
  readonly #log: Log
  readonly #settings: TemplateSettings
  readonly #waiting: Waiting[] = []
  #thread: Thread | null = null
  #running: Waiting | null = null
  #stopTimer: Cancel | null = null

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }, settings = defaultSettings) {
    this.#clock = clock
    this.#log = log.from('chat-templates.ts')
    this.#settings = settings
  }

  /** Calls `done` once, later, unless it is cancelled. Throws UNAVAILABLE when too many chats wait. */
  render(chat: ChatToRender, done: RenderDone): { cancel(): void } {
    if (chat.template.length > longestTemplate) {
      throw ServerError.withoutStack(
        'INTERNAL',
        `the chat template has ${chat.template.length} characters, at most ${longestTemplate} are rendered`,
      )
    }
    if (this.#waiting.length >= this.#settings.maxWaiting) {
      throw ServerError.withoutStack(
        'UNAVAILABLE',
        `${this.#waiting.length} chats wait for their templates, try again later`,
      )
    }
    const waiting: Waiting = { chat, done, isCancelled: false }
    this.#waiting.push(waiting)
    this.#next()
    return { cancel: () => (waiting.isCancelled = true) }
  }

  /** Ends the thread. Twice is fine. */
  close(): void {
    const error = ServerError.withoutStack('UNAVAILABLE', 'the server is shutting down')
    for (const { done, isCancelled } of this.#waiting.splice(0)) if (!isCancelled) done(error, null)
    this.#replace()
    this.#finish({ kind: 'failed', message: error.message })
  }

  #next(): void {
    if (this.#running !== null) return
    let next = this.#waiting.shift()
    while (next?.isCancelled === true) next = this.#waiting.shift()
    if (next === undefined) return
    this.#running = next
    this.#thread ??= this.#open()
    this.#stopTimer = this.#clock.after(this.#settings.timeoutMs * 1_000_000, () => this.#tooLong())
    const job: TemplateJob = next.chat
    this.#thread.postMessage(job, [])
  }

  #open(): Thread {
    const thread = new Thread(entry, {
      name: 'chat-templates',
      // A template has no business with the server's environment.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: this.#settings.memoryMb, maxYoungGenerationSizeMb: 16 },
    })
    thread.unref()
    thread.on('message', (result: TemplateResult) => {
      if (thread === this.#thread) this.#finish(result)
    })
    thread.on('error', (reason) => {
      if (thread !== this.#thread) return
      this.#thread = null
      this.#finish({ kind: 'failed', message: `the chat template could not be rendered: ${messageOf(reason)}` })
    })
    return thread
  }

  #tooLong(): void {
    const { timeoutMs } = this.#settings
    this.#log.warning('a chat template was given up: it did not end', { limit_ms: timeoutMs })
    this.#replace()
    this.#finish({ kind: 'failed', message: `the chat template did not end within ${timeoutMs} ms` })
  }

  #replace(): void {
    const thread = this.#thread
    this.#thread = null
    void thread?.terminate()
  }

  #finish(result: TemplateResult): void {
    this.#stopTimer?.()
    this.#stopTimer = null
    const running = this.#running
    this.#running = null
    if (running !== null && !running.isCancelled) {
      if (result.kind === 'rendered') running.done(null, result.text)
      else running.done(errorOf(result), null)
    }
    this.#next()
  }
}

/** Templates refuse chats that their models cannot follow: those errors are the client's. */
const errorOf = (result: Exclude<TemplateResult, { kind: 'rendered' }>): ServerError =>
  result.kind === 'refused'
    ? badRequest(`the chat template of the model refuses the messages: ${result.message}`, 'messages')
    : ServerError.withoutStack('INTERNAL', result.message)
