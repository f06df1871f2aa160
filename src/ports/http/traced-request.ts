import type { Clock } from '../../base/clock.ts'
import type { RequestTrace } from '../../model/inference-request.ts'
import { HttpResponse, type HttpRequest, type ResponseStream } from '../../transport/http1/http-message.ts'
import { WrappedRequest, WrappedStream } from './wrapped-request.ts'

/** Stamps the answer of a request on its trace: when the socket got the answer and when all of it was sent. */
export class TracedRequest extends WrappedRequest {
  readonly #trace: RequestTrace
  readonly #clock: Clock

  constructor(inner: HttpRequest, trace: RequestTrace, clock: Clock) {
    super(inner)
    this.#trace = trace
    this.#clock = clock
    trace.retain()
  }

  override respond(response: HttpResponse): void {
    this.#trace.stamp('HTTP_SEND_START', this.#clock.nowNs())
    const { status, contentType, parts, headers, closesConnection } = response
    const release = (): void => {
      response.release?.()
      this.#trace.stamp('HTTP_SEND_END', this.#clock.nowNs())
      this.#trace.release()
    }
    this.inner.respond(new HttpResponse(status, contentType, parts, { headers, closesConnection, release }))
  }

  /** A stream is sent when its last piece is sent. */
  override stream(head: HttpResponse): ResponseStream {
    this.#trace.stamp('HTTP_SEND_START', this.#clock.nowNs())
    return new WrappedStream(this.inner.stream(head), () => {
      this.#trace.stamp('HTTP_SEND_END', this.#clock.nowNs())
      this.#trace.release()
    })
  }
}
