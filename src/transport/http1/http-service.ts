import type { BodyRefusal } from './body-collector.ts'
import type { HttpRequest, HttpResponse } from './http-message.ts'

/** What the transport asks of the port. No function may throw. */
export type HttpService = {
  /**
   * The head of a request is there, its body is not. Null: receive the body, then `handle` the request. Else the request is
   * answered so, and its body is not kept. A promise holds the connection until it resolves; it never rejects.
   */
  admit(request: HttpRequest): HttpResponse | null | Promise<HttpResponse | null>
  handle(request: HttpRequest): void
  /** What handles the request met a fault of its own. */
  noteFault(request: HttpRequest, reason: unknown): void
  /** The body is over a limit; `bodyBytes` is what was announced, or what came so far if that is more. */
  refuseBody(request: HttpRequest, reason: BodyRefusal, bodyBytes: number): HttpResponse
  /** Too much is held for clients to keep an answer of so many bytes. */
  refuseMemory(answerBytes: number): HttpResponse
  /** The body stood still for too long. */
  refuseStalledBody(arrivedBytes: number): HttpResponse
  /** The head of a request took too long to arrive, or has too many bytes. */
  refuseHead(status: 400 | 408 | 431): HttpResponse
  /** What came cannot be a request, or cannot be its body; `fault` says why. Null: the connection is closed without an answer. */
  refuseMalformed(fault: string): HttpResponse | null
}
