import path from 'node:path'
import { Worker as Thread } from 'node:worker_threads'

import { messageOf } from '../../base/server-error.ts'
import type { JsonJob, JsonResult } from './json-offload-messages.ts'

/** The main thread's side of one JSON thread. */
export interface JsonThread {
  /** One job at a time. A busy thread keeps the process alive, an idle one does not. */
  post(job: JsonJob, transfer: readonly ArrayBuffer[]): void
  /** Ends the thread now. */
  terminate(): void
}

export type JsonThreadEvents = {
  onResult(result: JsonResult): void
  /** The last call, made once: the thread has ended for this reason. */
  onExit(reason: string): void
}

export type OpenJsonThread = (events: JsonThreadEvents) => JsonThread

const entry = new URL(`./json-worker${path.extname(import.meta.url)}`, import.meta.url)

export const openJsonThread: OpenJsonThread = (events) => {
  let failure: string | null = null
  const thread = new Thread(entry, { name: 'json' })
  thread.unref()
  thread.on('message', (result: JsonResult) => {
    thread.unref()
    events.onResult(result)
  })
  thread.on('messageerror', (reason) => {
    failure ??= messageOf(reason)
    void thread.terminate()
  })
  thread.on('error', (reason) => {
    failure ??= messageOf(reason)
  })
  thread.on('exit', (code) => events.onExit(failure ?? `exit code ${code}`))
  return {
    post: (job, transfer) => {
      thread.ref()
      thread.postMessage(job, transfer)
    },
    terminate: () => void thread.terminate(),
  }
}
