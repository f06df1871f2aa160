// One thread that runs all instances of a custom backend, so that they share the states of the backend and of their model.

import { Worker as Thread } from 'node:worker_threads'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { noteWorker } from '../../base/running-workers.ts'
import { threadCpu } from '../worker-pulse.ts'
import { failureText, forwardLines, workerEntry } from './thread-channel.ts'
import { workerNodeOptions, type ChannelEvents, type OpenChannel } from './worker-channel.ts'
import type { FromSharedWorker, FromWorker, ToSharedWorker } from './worker-protocol.ts'

/** How long the finalization of the backend may take before the thread is ended by force. */
const finalizeGraceMs = 10_000

export class SharedThread {
  readonly #clock: Clock
  readonly #log: Log
  readonly #name: string
  #running: RunningThread | null = null

  constructor(dependencies: { readonly clock: Clock; readonly log: Log }, name: string) {
    this.#clock = dependencies.clock
    this.#log = dependencies.log
    this.#name = name
  }

  /** A thread that has ended is replaced by the next instance that needs one. */
  readonly open: OpenChannel = (task, _limits, events) => {
    const running = (this.#running ??= new RunningThread(this.#log, this.#name, () => (this.#running = null)))
    const channel = running.join(events)
    running.post({ kind: 'open', channel, task }, [])
    return {
      post: (message, transfer) => running.post({ kind: 'tell', channel, message }, transfer),
      cpuUsage: () => running.cpuUsage(),
      // One instance alone cannot be ended from outside. The others are restarted by those who watch them.
      terminate: () => (running.isLeaving(channel) ? Promise.resolve() : running.terminate()),
    }
  }

  /** Finalizes the backend. All instances have been closed before. */
  async close(): Promise<void> {
    const running = this.#running
    if (running === null) return
    const cancelGrace = this.#clock.after(finalizeGraceMs * 1e6, () => {
      this.#log.warning('backend did not finish in time, it is ended', { backend: this.#name })
      void running.terminate()
    })
    running.post({ kind: 'end' }, [])
    await running.gone
    cancelGrace()
  }
}

class RunningThread {
  readonly gone: Promise<void>
  readonly #thread: Thread
  readonly #log: Log
  readonly #name: string
  readonly #channels = new Map<number, ChannelEvents>()
  readonly #leaving = new Set<number>()
  #nextChannel = 1
  #failure: string | null = null

  constructor(log: Log, name: string, onExit: () => void) {
    this.#log = log
    this.#name = name
    this.#thread = new Thread(workerEntry, {
      name: name.slice(0, 15),
      // No task: the tasks come one by one.
      workerData: null,
      stdout: true,
      stderr: true,
      execArgv: [...workerNodeOptions],
    })
    const forget = noteWorker(() => void this.#thread.terminate())
    const lines = { onLine: this.#onLine }
    forwardLines(this.#thread.stdout, lines, false)
    forwardLines(this.#thread.stderr, lines, true)
    this.#thread.on('message', (message: FromSharedWorker) => this.#onMessage(message))
    this.#thread.on('messageerror', (reason) => {
      this.#failure ??= `it sent what cannot be read: ${reason.message}`
      void this.#thread.terminate()
    })
    this.#thread.on('error', (reason) => {
      this.#failure ??= failureText(reason, 0)
    })
    this.gone = new Promise((resolve) => {
      this.#thread.on('exit', (code) => {
        forget()
        onExit()
        const reason = this.#failure ?? `its code called process.exit(${code})`
        const left = [...this.#channels.values()]
        this.#channels.clear()
        for (const events of left) events.onExit(reason)
        resolve()
      })
    })
  }

  join(events: ChannelEvents): number {
    const channel = this.#nextChannel++
    this.#channels.set(channel, events)
    return channel
  }

  /** True from the moment when the instance ends by itself. */
  isLeaving(channel: number): boolean {
    return this.#leaving.has(channel) || !this.#channels.has(channel)
  }

  post(message: ToSharedWorker, transfer: readonly ArrayBuffer[]): void {
    this.#thread.postMessage(message, transfer)
  }

  cpuUsage(): ReturnType<typeof threadCpu> {
    return threadCpu(this.#thread)
  }

  async terminate(): Promise<void> {
    this.#failure ??= 'it was ended'
    await this.#thread.terminate()
  }

  #onMessage({ channel, envelope }: FromSharedWorker): void {
    if (channel === 0) {
      if (envelope !== null) this.#onWord(envelope)
      return
    }
    const events = this.#channels.get(channel)
    if (events === undefined) return
    if (envelope === null) {
      this.#channels.delete(channel)
      this.#leaving.delete(channel)
      events.onExit('it was ended')
      return
    }
    // An instance that did not start leaves on its own.
    if (envelope.messages.some(({ kind }) => kind === 'refused')) this.#leaving.add(channel)
    events.onMessage(envelope)
  }

  /** The backend and its models log for no single instance. */
  #onWord({ messages }: FromWorker): void {
    for (const message of messages) {
      if (message.kind === 'log') {
        this.#log[message.level](message.message, { ...message.fields, backend: this.#name })
      }
    }
  }

  readonly #onLine = (line: string, isError: boolean): void => {
    if (isError) this.#log.warning(line, { backend: this.#name })
    else this.#log.info(line, { backend: this.#name })
  }
}
