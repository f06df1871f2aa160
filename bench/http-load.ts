// A load generator that costs little: prepared requests, sent in turn again and again over keep-alive connections, one in
// flight on each. Runs as a process of its own and takes its orders over IPC (bench/http-load-process.ts).

import { connect, type Socket } from 'node:net'

export type OpenOrder = {
  readonly kind: 'open'
  readonly port: number
  readonly connections: number
  /** One of these every answer must have. */
  readonly statuses: readonly number[]
  /** Each connection sends them in turn. */
  readonly requests: readonly Uint8Array[]
}
export type RunOrder = { readonly kind: 'run'; readonly seconds: number; readonly atLeast: number }
export type LoadOrder = OpenOrder | RunOrder

export type LoadResult = {
  readonly requests: number
  readonly seconds: number
  readonly p50Us: number
  readonly p99Us: number
}
export type LoadReport =
  | { readonly kind: 'opened' }
  | { readonly kind: 'ran'; readonly result: LoadResult }
  | { readonly kind: 'failed'; readonly reason: string }

const maxSamples = 1_000_000
const pieceBytes = 64 * 1024

class Load {
  readonly #connections: Connection[] = []
  readonly #samplesUs = new Float64Array(maxSamples)
  #requests = 0
  #inFlight = 0
  #startedMs = 0
  #endsMs = 0
  #atLeast = 0
  #onAllIdle: () => void = () => undefined

  open({ port, connections, requests, statuses }: OpenOrder): void {
    const buffers = requests.map((request) => Buffer.from(request))
    // Each connection asks once at once: a server may close one that says nothing for a while, and rightly so.
    this.#onAllIdle = () => send({ kind: 'opened' })
    this.#inFlight = connections
    for (let index = 0; index < connections; index++) {
      this.#connections.push(
        new Connection({ port, statuses }, buffers, (connection, elapsedMs) => this.#answered(connection, elapsedMs)),
      )
    }
  }

  run({ seconds, atLeast }: RunOrder): void {
    this.#requests = 0
    this.#onAllIdle = () => this.#report()
    this.#inFlight = this.#connections.length
    this.#atLeast = atLeast
    this.#startedMs = performance.now()
    this.#endsMs = this.#startedMs + seconds * 1000
    for (const connection of this.#connections) connection.ask()
  }

  #answered(connection: Connection, elapsedMs: number): void {
    this.#samplesUs[this.#requests % maxSamples] = elapsedMs * 1000
    this.#requests++
    if (performance.now() < this.#endsMs || this.#requests < this.#atLeast) connection.ask()
    else if (--this.#inFlight === 0) this.#onAllIdle()
  }

  #report(): void {
    const seconds = (performance.now() - this.#startedMs) / 1000
    const sorted = this.#samplesUs.slice(0, Math.min(this.#requests, maxSamples)).sort()
    const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
    send({ kind: 'ran', result: { requests: this.#requests, seconds, p50Us: at(0.5), p99Us: at(0.99) } })
  }
}

type Answered = (connection: Connection, elapsedMs: number) => void

class Connection {
  readonly #socket: Socket
  readonly #requests: readonly Buffer[]
  readonly #statuses: readonly number[]
  #next = 0
  readonly #answered: Answered
  /** Of the answer being received: bytes still to come, or -1 while its head is not complete. */
  #left = -1
  #head: Buffer = Buffer.alloc(0)
  #knownHead: Buffer = Buffer.alloc(0)
  #knownBodyBytes = 0
  #askedMs = 0

  constructor(
    target: { readonly port: number; readonly statuses: readonly number[] },
    requests: readonly Buffer[],
    answered: Answered,
  ) {
    const { port } = target
    this.#statuses = target.statuses
    this.#requests = requests
    this.#answered = answered
    // One buffer for all that is read: the load must not spend its core on garbage.
    const onread = {
      buffer: Buffer.allocUnsafe(256 * 1024),
      callback: (bytes: number, buffer: Uint8Array) => {
        this.#read(Buffer.from(buffer.buffer, buffer.byteOffset, bytes))
        return true
      },
    }
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true, onread }, () => this.ask())
    this.#socket.on('error', (error) => fail(`connection failed: ${error.message}`))
    this.#socket.on('close', () => fail('the server closed a connection'))
  }

  /** A large request goes out in pieces: what else runs on this core is not held up by one long copy. */
  #send(request: Buffer, at: number): void {
    const end = at + pieceBytes
    this.#socket.write(at === 0 && end >= request.length ? request : request.subarray(at, end))
    if (end < request.length) setImmediate(() => this.#send(request, end))
  }

  ask(): void {
    this.#askedMs = performance.now()
    this.#send(this.#requests[this.#next] as Buffer, 0)
    this.#next = (this.#next + 1) % this.#requests.length
  }

  #read(chunk: Buffer): void {
    if (this.#left < 0) {
      const bytes = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk])
      const headBytes = this.#readHead(bytes)
      if (headBytes < 0) {
        this.#head = Buffer.from(bytes)
        return
      }
      this.#head = Buffer.alloc(0)
      this.#left = this.#knownBodyBytes - (bytes.length - headBytes)
    } else {
      this.#left -= chunk.length
    }
    if (this.#left < 0) fail('the server sent more than one answer to one request')
    if (this.#left > 0) return
    this.#left = -1
    this.#answered(this, performance.now() - this.#askedMs)
  }

  /** Length of the head, or -1 when it is not all there. Heads repeat: one that was read before is only compared. */
  #readHead(bytes: Buffer): number {
    const known = this.#knownHead.length
    if (known > 0 && bytes.length >= known && bytes.compare(this.#knownHead, 0, known, 0, known) === 0) return known
    const end = bytes.indexOf('\r\n\r\n')
    if (end < 0) return -1
    this.#knownHead = Buffer.from(bytes.subarray(0, end + 4))
    const head = this.#knownHead.toString('latin1')
    if (!this.#statuses.some((status) => head.startsWith(`HTTP/1.1 ${status} `)))
      fail(`expected ${this.#statuses.join(' or ')}, got: ${bytes.toString('latin1', 0, 500)}`)
    const length = /^content-length: *(\d+)/im.exec(head)?.[1]
    if (length === undefined) fail(`expected an answer with Content-Length, got: ${head}`)
    this.#knownBodyBytes = Number(length)
    return end + 4
  }
}

const send = (report: LoadReport): void => void process.send?.(report)

const fail = (reason: string): never => {
  process.send?.({ kind: 'failed', reason } satisfies LoadReport, () => process.exit(1))
  throw new Error(reason)
}

if (import.meta.main) {
  const load = new Load()
  process.on('message', (order: LoadOrder) => (order.kind === 'open' ? load.open(order) : load.run(order)))
  process.on('disconnect', () => process.exit(0))
  process.on('uncaughtException', () => undefined)
}
