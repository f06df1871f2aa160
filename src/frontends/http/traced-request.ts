import type { Clock } from '../../base/clock.ts'
import type { RequestTrace } from '../../model/request-trace.ts'
import { HttpResponse, type HttpRequest, type ResponseStream } from './http-message.ts'

/** A request whose answer is stamped on its trace: when it was handed to the socket and when it had left. */
export class TracedRequest implements HttpRequest {
  readonly #inner: HttpRequest
  readonly #trace: RequestTrace
  readonly #clock: Clock

  constructor(inner: HttpRequest, trace: RequestTrace, clock: Clock) {
    this.#inner = inner
    this.#trace = trace
    this.#clock = clock
    trace.retain()
  }

  get method(): string {
    return this.#inner.method
  }
  get target(): string {
    return this.#inner.target
  }
  get headers(): readonly string[] {
    return this.#inner.headers
  }
  get body(): Buffer {
    return this.#inner.body
  }
  get remoteAddress(): string {
    return this.#inner.remoteAddress
  }
  get onDisconnect(): (() => void) | null {
    return this.#inner.onDisconnect
  }
  set onDisconnect(listener: (() => void) | null) {
    this.#inner.onDisconnect = listener
  }

  respond(response: HttpResponse): void {
    this.#trace.stamp('HTTP_SEND_START', this.#clock.nowNs())
    const { status, contentType, parts, headers, closesConnection } = response
    const release = (): void => {
      response.release?.()
      this.#trace.stamp('HTTP_SEND_END', this.#clock.nowNs())
      this.#trace.release()
    }
    this.#inner.respond(new HttpResponse(status, contentType, parts, { headers, closesConnection, release }))
  }

  /** Infer, the endpoint that is traced, never answers in pieces. */
  stream(head: HttpResponse): ResponseStream {
    return this.#inner.stream(head)
  }
}
