import { HttpResponse, type ResponseStream } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'
import { WrappedRequest } from './wrapped-request.ts'

/** Adds headers to the answer of a request. */
export class MarkedRequest extends WrappedRequest {
  readonly #marks: readonly string[]

  constructor(inner: PortRequest, marks: readonly string[]) {
    super(inner)
    this.#marks = marks
  }

  override respond(response: HttpResponse): void {
    this.inner.respond(this.#marked(response))
  }

  override stream(head: HttpResponse): ResponseStream {
    return this.inner.stream(this.#marked(head))
  }

  #marked({ status, contentType, parts, headers, release, closesConnection }: HttpResponse): HttpResponse {
    const all = headers.length === 0 ? this.#marks : [...headers, ...this.#marks]
    return new HttpResponse(status, contentType, parts, { headers: all, release, closesConnection })
  }
}
