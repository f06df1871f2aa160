import type { InferenceRequest } from '../../model/inference-request.ts'
import type { HttpResponse, ResponseStream } from '../../transport/http1/http-message.ts'
import type { PeerCertificate } from '../../transport/peer-certificate.ts'
import type { RequestMemory } from '../../transport/request-memory.ts'
import type { PortRequest } from './port-request.ts'

/** A request that passes all calls on to another request. Subclasses change some of them. */
export class WrappedRequest implements PortRequest {
  protected readonly inner: PortRequest

  constructor(inner: PortRequest) {
    this.inner = inner
  }

  get method(): string {
    return this.inner.method
  }
  get target(): string {
    return this.inner.target
  }
  get headers(): readonly string[] {
    return this.inner.headers
  }
  get body(): Buffer {
    return this.inner.body
  }
  get remoteAddress(): string {
    return this.inner.remoteAddress
  }
  peerCertificate(): PeerCertificate | null {
    return this.inner.peerCertificate?.() ?? null
  }
  get caller(): unknown {
    return this.inner.caller
  }
  get memory(): RequestMemory {
    return this.inner.memory
  }
  get onDisconnect(): (() => void) | null {
    return this.inner.onDisconnect
  }
  set onDisconnect(listener: (() => void) | null) {
    this.inner.onDisconnect = listener
  }

  noteFault(reason: unknown): void {
    this.inner.noteFault?.(reason)
  }

  noteInference(inference: InferenceRequest, version: string): void {
    this.inner.noteInference?.(inference, version)
  }

  respond(response: HttpResponse): void {
    this.inner.respond(response)
  }

  stream(head: HttpResponse): ResponseStream {
    return this.inner.stream(head)
  }
}

type StreamEnd = { readonly bytes: number; readonly isAborted: boolean }

/**
 * A stream that reports its end once: how much was written, and whether it was broken off. The report comes before the
 * end, because after the end the transport may reuse the request for the next one.
 */
export class WrappedStream implements ResponseStream {
  readonly #inner: ResponseStream
  #onEnd: ((end: StreamEnd) => void) | null
  #bytes = 0

  constructor(inner: ResponseStream, onEnd: (end: StreamEnd) => void) {
    this.#inner = inner
    this.#onEnd = onEnd
  }

  get unreadBytes(): number {
    return this.#inner.unreadBytes
  }
  get onDrain(): (() => void) | null {
    return this.#inner.onDrain
  }
  set onDrain(listener: (() => void) | null) {
    this.#inner.onDrain = listener
  }

  write(piece: Uint8Array): boolean {
    this.#bytes += piece.length
    return this.#inner.write(piece)
  }

  end(): void {
    this.#finish(false)
    this.#inner.end()
  }

  abort(): void {
    this.#finish(true)
    this.#inner.abort()
  }

  #finish(isAborted: boolean): void {
    const onEnd = this.#onEnd
    this.#onEnd = null
    onEnd?.({ bytes: this.#bytes, isAborted })
  }
}
