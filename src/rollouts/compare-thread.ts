// Compares outputs off the hot path: small ones in a later turn of the event loop, large ones in a thread.

import path from 'node:path'
import { Worker as Thread } from 'node:worker_threads'
import type { Tensor } from '../tensor/tensor.ts'
import { compareOutputs, type OutputComparison, type PairResult } from './compare-outputs.ts'

export type CompareJob = {
  readonly id: number
  readonly stable: readonly Tensor[]
  readonly candidate: readonly Tensor[]
  readonly rules: Readonly<Record<string, OutputComparison>>
}

export type ComparedJob = { readonly id: number; readonly result: PairResult | null }

/** `result` is null where the outputs could not be compared. */
type Compared = (result: PairResult | null) => void

/** Above so many bytes of both sides a thread compares. */
const largeBytes = 64 * 1024
/** Outputs that wait for the thread, in bytes. */
const mostWaitingBytes = 64 * 1024 * 1024

const entry = new URL(`./compare-worker${path.extname(import.meta.url)}`, import.meta.url)

export class CompareThread {
  readonly #rules: Readonly<Record<string, OutputComparison>>
  readonly #waiting = new Map<number, { readonly done: Compared; readonly bytes: number }>()
  #thread: Thread | null = null
  #waitingBytes = 0
  #lastId = 0

  constructor(rules: Readonly<Record<string, OutputComparison>>) {
    this.#rules = rules
  }

  /** Calls `done` once, later. False: too many outputs wait already, and `done` is not called. */
  compare(stable: readonly Tensor[], candidate: readonly Tensor[], done: Compared): boolean {
    let bytes = 0
    for (const { bytes: own } of stable) bytes += own.length
    for (const { bytes: own } of candidate) bytes += own.length
    if (bytes <= largeBytes) {
      setImmediate(() => this.#compareHere(stable, candidate, done))
      return true
    }
    if (this.#waitingBytes + bytes > mostWaitingBytes) return false
    const id = ++this.#lastId
    this.#waiting.set(id, { done, bytes })
    this.#waitingBytes += bytes
    const job: CompareJob = { id, stable, candidate, rules: this.#rules }
    const thread = this.#opened()
    thread.ref()
    // The outputs are copies that nobody else has: their memory moves.
    const own = [...stable, ...candidate].map((tensor) => tensor.bytes.buffer as ArrayBuffer)
    thread.postMessage(job, [...new Set(own)])
    return true
  }

  close(): void {
    void this.#thread?.terminate()
    this.#thread = null
  }

  #compareHere(stable: readonly Tensor[], candidate: readonly Tensor[], done: Compared): void {
    try {
      done(compareOutputs(stable, candidate, this.#rules))
    } catch {
      done(null)
    }
  }

  #opened(): Thread {
    if (this.#thread !== null) return this.#thread
    const thread = new Thread(entry, { name: 'compare' })
    this.#thread = thread
    thread.unref()
    thread.on('message', ({ id, result }: ComparedJob) => this.#finish(id, result))
    thread.on('error', () => undefined)
    thread.on('exit', () => {
      if (this.#thread === thread) this.#thread = null
      for (const id of this.#waiting.keys()) this.#finish(id, null)
    })
    return thread
  }

  #finish(id: number, result: PairResult | null): void {
    const waiting = this.#waiting.get(id)
    if (waiting === undefined) return
    this.#waiting.delete(id)
    this.#waitingBytes -= waiting.bytes
    if (this.#waiting.size === 0) this.#thread?.unref()
    waiting.done(result)
  }
}
