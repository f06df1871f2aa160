// Chat templates come with models, and a hostile one may never end. So threads render them, with a bound of time and memory. A template
// has one thread at a time: while it is slow, the chats of other models go through the other threads.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { badRequest } from '../../protocol/openai/openai-problem.ts'
import type { JsonObject } from '../../protocol/openai/request-fields.ts'
import { TemplateThread, type ThreadBounds } from './template-thread.ts'
import type { TemplateResult } from './template-worker.ts'

export type ChatToRender = { readonly template: string; readonly fields: JsonObject }
type RenderDone = (error: unknown, text: string | null) => void

type TemplateSettings = ThreadBounds & {
  /** Chats of one template. */
  readonly maxWaiting: number
}

/** A template of a large model takes 10 ms for a long chat; the rest is for a machine that is busy. */
const defaultSettings: TemplateSettings = { timeoutMs: 5000, maxWaiting: 1024, memoryMb: 128 }

const longestTemplate = 256 * 1024
/** So many templates may be slow at once until others wait for them. A thread is made when all that there are have work. */
const mostThreads = 4

type Waiting = { readonly chat: ChatToRender; readonly done: RenderDone; isCancelled: boolean }

export class ChatTemplates {
  readonly #clock: Clock
  readonly #log: Log
  readonly #settings: TemplateSettings
  /** By template, whose turn is next first. A template without a chat that waits is not in it. */
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #running = new Set<string>()
  readonly #threads: TemplateThread[] = []

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }, settings = defaultSettings) {
    this.#clock = clock
    this.#log = log.from('chat-templates.ts')
    this.#settings = settings
  }

  /** Calls `done` once, later, unless it is cancelled. Throws UNAVAILABLE when too many chats wait. */
  render(chat: ChatToRender, done: RenderDone): { cancel(): void } {
    const { template } = chat
    if (template.length > longestTemplate) {
      throw ServerError.withoutStack(
        'INTERNAL',
        `the chat template has ${template.length} characters, at most ${longestTemplate} are rendered`,
      )
    }
    const queue = this.#waiting.get(template) ?? []
    if (queue.length >= this.#settings.maxWaiting) {
      throw ServerError.withoutStack(
        'UNAVAILABLE',
        `${queue.length} chats wait for the chat template of the model, try again later`,
      )
    }
    const waiting: Waiting = { chat, done, isCancelled: false }
    queue.push(waiting)
    this.#waiting.set(template, queue)
    this.#next()
    return { cancel: () => (waiting.isCancelled = true) }
  }

  /** Ends the threads. Twice is fine. */
  close(): void {
    const error = ServerError.withoutStack('UNAVAILABLE', 'the server is shutting down')
    const waiting = [...this.#waiting.values()].flat()
    this.#waiting.clear()
    for (const { done, isCancelled } of waiting) if (!isCancelled) done(error, null)
    for (const thread of this.#threads) thread.close()
  }

  #next(): void {
    for (const [template, queue] of this.#waiting) {
      if (this.#running.has(template)) continue
      const thread = this.#freeThread()
      if (thread === null) return
      this.#waiting.delete(template)
      const next = takeWanted(queue)
      if (next === null) continue
      // To the end: every template has its turn.
      if (queue.length > 0) this.#waiting.set(template, queue)
      this.#start(thread, next)
    }
  }

  #freeThread(): TemplateThread | null {
    const free = this.#threads.find(({ isBusy }) => !isBusy)
    if (free !== undefined) return free
    if (this.#threads.length >= mostThreads) return null
    const thread = new TemplateThread(this.#clock, this.#settings)
    this.#threads.push(thread)
    return thread
  }

  #start(thread: TemplateThread, waiting: Waiting): void {
    const { chat, done } = waiting
    this.#running.add(chat.template)
    thread.render(chat, (result) => {
      this.#running.delete(chat.template)
      if (result.kind === 'endless') {
        this.#log.warning('a chat template was given up: it did not end', { limit_ms: this.#settings.timeoutMs })
      }
      if (!waiting.isCancelled) {
        if (result.kind === 'rendered') done(null, result.text)
        else done(errorOf(result), null)
      }
      this.#next()
    })
  }
}

/** The first chat that somebody still waits for. */
function takeWanted(queue: Waiting[]): Waiting | null {
  let next = queue.shift()
  while (next?.isCancelled === true) next = queue.shift()
  return next ?? null
}

/** Templates refuse chats that their models cannot follow: those errors are the client's. */
const errorOf = (result: Exclude<TemplateResult, { kind: 'rendered' }>): ServerError =>
  result.kind === 'refused'
    ? badRequest(`the chat template of the model refuses the messages: ${result.message}`, 'messages')
    : ServerError.withoutStack('INTERNAL', result.message)
