// Large messages over gRPC at a given rate, whether or not answers come. In this process.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { InterleavingGrpcClient } from '../test/fakes/interleaving-grpc-client.ts'
import type { OpenLoadResult } from './open-http-load.ts'
import { keepOnCore } from './pinning.ts'

const refusals = new Set(['8', '14'])

export class OpenGrpcLoad implements Disposable {
  readonly #sockets: readonly Socket[]
  readonly #connections: readonly InterleavingGrpcClient[]
  #okMs: number[] = []
  #refusedMs: number[] = []
  #onAnswer: () => void = () => undefined

  private constructor(port: number, connections: number, message: Buffer) {
    const answered = (status: string, dueMs: number): void => {
      const elapsedMs = performance.now() - dueMs
      if (status === '0') this.#okMs.push(elapsedMs)
      else if (refusals.has(status)) this.#refusedMs.push(elapsedMs)
      else throw new Error(`expected status 0, 8 or 14, got '${status}'`)
      this.#onAnswer()
    }
    this.#sockets = Array.from({ length: connections }, () => connect({ port, host: '127.0.0.1', noDelay: true }))
    this.#connections = this.#sockets.map((socket) => new InterleavingGrpcClient(socket, message, answered))
  }

  static async open(port: number, connections: number, message: Buffer): Promise<OpenGrpcLoad> {
    keepOnCore(1)
    const load = new OpenGrpcLoad(port, connections, message)
    await Promise.all(load.#sockets.map((socket) => once(socket, 'connect')))
    return load
  }

  /** As many under way as that, for so long. */
  async runClosed(concurrency: number, seconds: number): Promise<OpenLoadResult> {
    const startedMs = this.#begin()
    let offered = 0
    const ask = (): void => this.#connections[offered++ % this.#connections.length]?.ask(performance.now())
    for (let i = 0; i < concurrency; i++) ask()
    this.#onAnswer = ask
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    return this.#end(startedMs, offered)
  }

  /** Evenly spaced, to the millisecond, on one connection after the other. Times count from when a request was due. */
  async run(perSecond: number, seconds: number): Promise<OpenLoadResult> {
    const startedMs = this.#begin()
    let offered = 0
    for (let nowMs = startedMs; nowMs < startedMs + seconds * 1000; nowMs = performance.now()) {
      const due = Math.floor(((nowMs - startedMs) / 1000) * perSecond)
      for (; offered < due; offered++) {
        this.#connections[offered % this.#connections.length]?.ask(startedMs + (offered * 1000) / perSecond)
      }
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    return this.#end(startedMs, offered)
  }

  #begin(): number {
    this.#okMs = []
    this.#refusedMs = []
    return performance.now()
  }

  async #end(startedMs: number, offered: number): Promise<OpenLoadResult> {
    this.#onAnswer = () => undefined
    const [okMs, refusedMs] = [[...this.#okMs], [...this.#refusedMs]]
    const seconds = (performance.now() - startedMs) / 1000
    for (const connection of this.#connections) connection.forgetDue()
    while (this.#connections.some((connection) => !connection.isIdle)) {
      await new Promise<void>((resolve) => (this.#onAnswer = resolve))
    }
    this.#onAnswer = () => undefined
    return { seconds, offered, okCount: okMs.length, refusedCount: refusedMs.length, okMs, refusedMs }
  }

  [Symbol.dispose](): void {
    for (const connection of this.#connections) connection.close()
    keepOnCore(null)
  }
}
