// Divides a level among the threads that make the load, and joins their windows.

import { Worker } from 'node:worker_threads'
import type { LoadLevel, LoadOrder, LoadReport, LoadSetup } from './load-order.ts'
import type { PreparedRequest } from './prepared-request.ts'
import type { WindowRecord } from './window-recorder.ts'

/** What one thread writes in a second. */
const threadBytes = 1024 ** 3

type Setup = Omit<LoadSetup, 'counters' | 'share'>

export class LoadThreads {
  readonly #threads: readonly LoadThread[]
  #spent: Promise<void> = Promise.resolve()

  constructor(setup: Setup, count: number) {
    this.#threads = Array.from({ length: count }, (_, share) => {
      const sequence = setup.sequence === null ? null : { ...setup.sequence, share, shares: count }
      return new LoadThread({ ...setup, sequence, share, counters: new SharedArrayBuffer(8) })
    })
  }

  get count(): number {
    return this.#threads.length
  }

  /** Requests answered well and badly since the level began. */
  get doneCount(): number {
    return this.#threads.reduce((sum, thread) => sum + (thread.counters[0] ?? 0), 0)
  }

  get failedCount(): number {
    return this.#threads.reduce((sum, thread) => sum + (thread.counters[1] ?? 0), 0)
  }

  /** Resolves when the budget of the level is spent. */
  get spent(): Promise<void> {
    return this.#spent
  }

  async begin(level: LoadLevel): Promise<void> {
    const shares = this.#threads.map((_, share) => shareOfLevel(level, share, this.#threads.length))
    const busy = this.#threads.filter((_, at) => shares[at] !== null)
    this.#spent = Promise.all(busy.map((thread) => thread.next('spent'))).then(() => undefined)
    // A thread that fails while nobody waits for its budget fails its other orders too.
    this.#spent.catch(() => undefined)
    const epochMs = performance.timeOrigin + performance.now()
    await Promise.all(
      this.#threads.map(async (thread, at) => {
        const share = shares[at]
        if (share !== null && share !== undefined) await thread.ask({ kind: 'begin', level: share, epochMs }, 'begun')
      }),
    )
  }

  async cut(): Promise<readonly WindowRecord[]> {
    const reports = await Promise.all(this.#threads.map((thread) => thread.ask({ kind: 'cut' }, 'window')))
    return reports.map(({ record }) => record)
  }

  async end(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.ask({ kind: 'end' }, 'ended')))
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()))
  }
}

/** How many threads the bytes of a rate need: a thread that writes is late for its next request. */
export function threadsForRate(ratePerSecond: number, requests: readonly PreparedRequest[]): number {
  const largest = requests.reduce((most, { head, tail }) => Math.max(most, head.length + tail.length), 0)
  return Math.ceil((largest * ratePerSecond) / threadBytes)
}

/** The part of a level for one of several threads; null when the thread has no part. */
export function shareOfLevel(level: LoadLevel, share: number, shares: number): LoadLevel | null {
  const { shape } = level
  const part = (whole: number): number => Math.floor((whole + shares - 1 - share) / shares)
  const budget = level.budget === null ? null : part(level.budget)
  const sequences = Math.max(1, part(level.sequences))
  if (budget === 0) return null
  if (shape.kind === 'concurrency') {
    const lanes = part(shape.lanes)
    return lanes === 0 ? null : { shape: { kind: 'concurrency', lanes }, sequences, budget }
  }
  if (shape.kind === 'constant') return { shape: { ...shape, share, shares }, sequences, budget }
  if (shape.kind === 'poisson') {
    const ratePerSecond = shape.ratePerSecond / shares
    return { shape: { ...shape, ratePerSecond, seed: shape.seed + share }, sequences, budget }
  }
  return share === 0 ? level : null
}

type ReportOf<Kind extends LoadReport['kind']> = Extract<LoadReport, { kind: Kind }>

class LoadThread {
  readonly counters: Int32Array
  readonly #worker: Worker
  readonly #waiting = new Map<
    LoadReport['kind'],
    { resolve: (report: never) => void; reject: (reason: Error) => void }
  >()
  #failure: Error | null = null

  constructor(setup: LoadSetup) {
    this.counters = new Int32Array(setup.counters)
    const file = import.meta.url.endsWith('.ts') ? './load-thread.ts' : './load-thread.js'
    this.#worker = new Worker(new URL(file, import.meta.url), { workerData: setup, name: 'load' })
    this.#worker.on('message', (report: LoadReport) => this.#onReport(report))
    this.#worker.on('error', (reason) => this.#fail(reason instanceof Error ? reason : new Error(String(reason))))
  }

  ask<Kind extends LoadReport['kind']>(order: LoadOrder, answer: Kind): Promise<ReportOf<Kind>> {
    const answered = this.next(answer)
    this.#worker.postMessage(order, [])
    return answered
  }

  next<Kind extends LoadReport['kind']>(kind: Kind): Promise<ReportOf<Kind>> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    return new Promise((resolve, reject) => this.#waiting.set(kind, { resolve, reject }))
  }

  async close(): Promise<void> {
    await this.#worker.terminate()
  }

  #onReport(report: LoadReport): void {
    if (report.kind === 'failed') return this.#fail(new Error(report.reason))
    const waiting = this.#waiting.get(report.kind)
    this.#waiting.delete(report.kind)
    waiting?.resolve(report as never)
  }

  #fail(reason: Error): void {
    this.#failure = reason
    for (const { reject } of this.#waiting.values()) reject(reason)
    this.#waiting.clear()
  }
}
