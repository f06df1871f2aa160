import type { HttpResponse, ResponseStream } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'
import { WrappedRequest, WrappedStream } from './wrapped-request.ts'

/** A request whose answer has no end of its own. The port can end it, as if the client had gone. */
export class LastingRequest extends WrappedRequest {
  #listener: (() => void) | null = null
  #stream: ResponseStream | null = null
  isOver = false

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
    this.#stream = new WrappedStream(this.inner.stream(head), () => (this.isOver = true))
    return this.#stream
  }

  end(): void {
    if (this.isOver) return
    this.#left()
    this.#stream?.end()
  }

  #left(): void {
    this.isOver = true
    this.#listener?.()
  }
}
