import path from 'node:path'
import { Worker as Thread } from 'node:worker_threads'
import type { Cancel, Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/server-error.ts'
import type { TemplateJob, TemplateResult } from './template-worker.ts'

export type ThreadBounds = { readonly timeoutMs: number; readonly memoryMb: number }

const entry = new URL(`./template-worker${path.extname(import.meta.url)}`, import.meta.url)

/** Renders one chat at a time. A thread that does not answer in time is ended; the next chat gets a new one. */
export class TemplateThread {
  readonly #clock: Clock
  readonly #bounds: ThreadBounds
  #thread: Thread | null = null
  #done: ((result: TemplateResult) => void) | null = null
  #stopTimer: Cancel | null = null

  constructor(clock: Clock, bounds: ThreadBounds) {
    this.#clock = clock
    this.#bounds = bounds
  }

  get isBusy(): boolean {
    return this.#done !== null
  }

  /** Calls `done` once, later. The thread must not be busy. */
  render(job: TemplateJob, done: (result: TemplateResult) => void): void {
    this.#done = done
    this.#thread ??= this.#open()
    this.#stopTimer = this.#clock.after(this.#bounds.timeoutMs * 1_000_000, () => {
      this.#end({ kind: 'endless', message: `the chat template did not end within ${this.#bounds.timeoutMs} ms` })
    })
    this.#thread.postMessage(job, [])
  }

  /** Twice is fine. */
  close(): void {
    this.#end({ kind: 'failed', message: 'the server is shutting down' })
  }

  #open(): Thread {
    const thread = new Thread(entry, {
      name: 'chat-templates',
      // A template has no business with the server's environment.
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: this.#bounds.memoryMb, maxYoungGenerationSizeMb: 16 },
    })
    thread.unref()
    thread.on('message', (result: TemplateResult) => {
      if (thread === this.#thread) this.#tell(result)
    })
    thread.on('error', (reason) => {
      if (thread !== this.#thread) return
      this.#thread = null
      this.#tell({ kind: 'failed', message: `the chat template could not be rendered: ${messageOf(reason)}` })
    })
    return thread
  }

  #end(result: TemplateResult): void {
    const thread = this.#thread
    this.#thread = null
    void thread?.terminate()
    this.#tell(result)
  }

  #tell(result: TemplateResult): void {
    this.#stopTimer?.()
    this.#stopTimer = null
    const done = this.#done
    this.#done = null
    done?.(result)
  }
}
