import type { BodyRefusal } from './body-collector.ts'
import type { HttpRequest, HttpResponse } from './http-message.ts'

/** What the transport asks of the front end. Neither function may throw. */
export type HttpService = {
  handle(request: HttpRequest): void
  /** The body is over a limit; `bodyBytes` is what was announced, or what came so far if that is more. */
  refuseBody(request: HttpRequest, reason: BodyRefusal, bodyBytes: number): HttpResponse
  /** The body stood still for too long. */
  refuseStalledBody(): HttpResponse
  /** The message of the answer to a request whose headers never came in whole. */
  refusalText(status: 408 | 431): string
}
