import type { Account } from '../../access/account.ts'
import type { HttpRequest, HttpResponse, ResponseStream } from '../../transport/http1/http-message.ts'
import { withHeaders } from './cross-origin.ts'
import { WrappedRequest } from './wrapped-request.ts'

/** A request of a tenant with limits: every answer tells how much of them is left. */
export class LimitedRequest extends WrappedRequest {
  readonly #account: Account

  constructor(inner: HttpRequest, account: Account) {
    super(inner)
    this.#account = account
  }

  override respond(response: HttpResponse): void {
    this.inner.respond(this.#told(response))
  }

  override stream(head: HttpResponse): ResponseStream {
    return this.inner.stream(this.#told(head))
  }

  #told(response: HttpResponse): HttpResponse {
    const headers = this.#account.answerHeaders()
    return headers === null ? response : withHeaders(response, headers)
  }
}
