// Requests at a given rate, whether or not answers come: what real clients do to a server that is too slow. In this
// process, over keep-alive connections, one request in flight on each.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { keepOnCore } from './pinning.ts'

export type OpenLoadResult = {
  readonly seconds: number
  readonly offered: number
  readonly okCount: number
  readonly refusedCount: number
  /** Milliseconds from sending to the whole answer. */
  readonly okMs: readonly number[]
  readonly refusedMs: readonly number[]
}

class Connection {
  readonly #socket: Socket
  readonly #request: Buffer
  readonly #answered: (connection: Connection, status: number, elapsedMs: number) => void
  #text: Buffer = Buffer.alloc(0)
  #sentMs = 0

  constructor(port: number, request: Buffer, answered: Connection['answered']) {
    this.#request = request
    this.#answered = answered
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk))
    this.#socket.on('error', (error) => {
      throw error
    })
  }

  get answered(): (connection: Connection, status: number, elapsedMs: number) => void {
    return this.#answered
  }

  opened(): Promise<unknown> {
    return once(this.#socket, 'connect')
  }

  ask(): void {
    this.#sentMs = performance.now()
    this.#socket.write(this.#request)
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(chunk: Buffer): void {
    this.#text = this.#text.length === 0 ? chunk : Buffer.concat([this.#text, chunk])
    const end = this.#text.indexOf('\r\n\r\n')
    if (end < 0) return
    const head = this.#text.toString('latin1', 0, end)
    const bodyBytes = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
    if (this.#text.length < end + 4 + bodyBytes) return
    this.#text = Buffer.alloc(0)
    this.#answered(this, Number(head.slice(9, 12)), performance.now() - this.#sentMs)
  }
}

export class OpenHttpLoad implements Disposable {
  readonly #connections: readonly Connection[]
  #idle: Connection[]
  #okMs: number[] = []
  #refusedMs: number[] = []
  #onAnswer: () => void = () => undefined

  private constructor(port: number, connections: number, request: Buffer) {
    const answered = (connection: Connection, status: number, elapsedMs: number): void => {
      this.#idle.push(connection)
      if (status === 200) this.#okMs.push(elapsedMs)
      else if (status === 503) this.#refusedMs.push(elapsedMs)
      else throw new Error(`expected 200 or 503, got ${status}`)
      this.#onAnswer()
    }
    this.#connections = Array.from({ length: connections }, () => new Connection(port, request, answered))
    this.#idle = [...this.#connections]
  }

  static async open(port: number, connections: number, request: Buffer, core = 1): Promise<OpenHttpLoad> {
    keepOnCore(core)
    const load = new OpenHttpLoad(port, connections, request)
    await Promise.all(load.#connections.map((connection) => connection.opened()))
    return load
  }

  /** A request under way on each connection, for so long. */
  async runClosed(seconds: number): Promise<OpenLoadResult> {
    this.#okMs = []
    this.#refusedMs = []
    const startedMs = performance.now()
    this.#onAnswer = () => this.#idle.pop()?.ask()
    for (const connection of this.#idle.splice(0)) connection.ask()
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000))
    return this.#end(startedMs, this.#okMs.length + this.#refusedMs.length)
  }

  /** Evenly spaced, to the millisecond. A request that finds no free connection is offered all the same, and counts as neither. */
  async run(perSecond: number, seconds: number): Promise<OpenLoadResult> {
    this.#okMs = []
    this.#refusedMs = []
    const startedMs = performance.now()
    let offered = 0
    for (let nowMs = startedMs; nowMs < startedMs + seconds * 1000; nowMs = performance.now()) {
      const due = Math.floor(((nowMs - startedMs) / 1000) * perSecond)
      for (; offered < due; offered++) this.#idle.pop()?.ask()
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    return this.#end(startedMs, offered)
  }

  async #end(startedMs: number, offered: number): Promise<OpenLoadResult> {
    this.#onAnswer = () => undefined
    const [okMs, refusedMs] = [[...this.#okMs], [...this.#refusedMs]]
    const seconds = (performance.now() - startedMs) / 1000
    while (this.#idle.length < this.#connections.length) {
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

export const quantile = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}
