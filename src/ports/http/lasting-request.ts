import type { HttpResponse, ResponseStream } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'
import { WrappedRequest, WrappedStream } from './wrapped-request.ts'

/** A request whose answer has no end of its own. The port can end it, as if the client had gone. */
export class LastingRequest extends WrappedRequest {
  #listener: (() => void) | null = null
  #stream: ResponseStream | null = null
  isOver = false
  #isEnding = false

  constructor(inner: PortRequest) {
    super(inner)
    inner.onDisconnect = () => this.#left()
  }

  override get onDisconnect(): (() => void) | null {
    return this.#listener
  }
  override set onDisconnect(listener: (() => void) | null) {
    this.#listener = listener
  }

  override respond(response: HttpResponse): void {
    this.isOver = true
    this.inner.respond(response)
  }

  override stream(head: HttpResponse): ResponseStream {
    const stream = new WrappedStream(this.inner.stream(head), () => (this.isOver = true))
    this.#stream = stream
    // Who opens it listens for its end by then.
    if (this.#isEnding) queueMicrotask(() => this.end())
    return stream
  }

  /** A request whose stream has not begun must get an answer all the same: it ends with what comes first, an answer or the stream. */
  end(): void {
    this.#isEnding = true
    if (this.isOver || this.#stream === null) return
    this.#left()
    this.#stream.end()
  }

  #left(): void {
    this.isOver = true
    this.#listener?.()
  }
}
