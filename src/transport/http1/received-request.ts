import type { PeerCertificate } from '../peer-certificate.ts'
import type { RequestMemory } from '../request-memory.ts'
import type { HttpRequest, HttpResponse, ResponseStream } from './http-message.ts'
import type { RequestHead } from './request-head.ts'

/** What a request asks of the connection that it came by. */
export interface RequestHost {
  readonly remoteAddress: string
  peerCertificate(): PeerCertificate | null
  noteFault(request: ReceivedRequest, reason: unknown): void
  memoryOfRequest(): RequestMemory
  /** Called once per request. */
  answer(request: ReceivedRequest, response: HttpResponse): void
  /** Instead of `answer`. */
  stream(request: ReceivedRequest, head: HttpResponse): ResponseStream
}

const noBytes = Buffer.alloc(0)

/** One request and its one answer. An answer that comes too late, or a second one, is dropped here. */
export class ReceivedRequest implements HttpRequest {
  readonly head: RequestHead
  body: Buffer = noBytes
  caller: unknown = null
  /** The answer to a request that was not admitted; null for all others. */
  refusal: HttpResponse | null = null
  onDisconnect: (() => void) | null = null
  isAnswered = false
  readonly #connection: RequestHost
  #memory: RequestMemory | null = null
  #isOver = false

  constructor(connection: RequestHost, head: RequestHead) {
    this.#connection = connection
    this.head = head
  }

  get method(): string {
    return this.head.method
  }

  get target(): string {
    return this.head.target
  }

  get headers(): readonly string[] {
    return this.head.headers
  }

  get remoteAddress(): string {
    return this.#connection.remoteAddress
  }

  peerCertificate(): PeerCertificate | null {
    return this.#connection.peerCertificate()
  }

  noteFault(reason: unknown): void {
    this.#connection.noteFault(this, reason)
  }

  /** Made when something is held for the request beside its body, which is rare. */
  get memory(): RequestMemory {
    if (this.#memory !== null) return this.#memory
    const memory = this.#connection.memoryOfRequest()
    // What is held after the end would never go back.
    if (this.#isOver) memory.end()
    this.#memory = memory
    return memory
  }

  /** Everything that was held for the request goes back. */
  endMemory(): void {
    this.#isOver = true
    this.#memory?.end()
  }

  respond(response: HttpResponse): void {
    if (this.isAnswered) {
      response.release?.()
      return
    }
    this.isAnswered = true
    this.onDisconnect = null
    this.#connection.answer(this, response)
  }

  /** The request counts as answered when the last piece is written. Until then `onDisconnect` is called. */
  stream(head: HttpResponse): ResponseStream {
    return this.#connection.stream(this, head)
  }
}
