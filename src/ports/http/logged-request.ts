import type { Caller } from '../../access/caller.ts'
import type { AccessLog } from '../../base/access-log.ts'
import type { Clock } from '../../base/clock.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import {
  headerOf,
  type HttpRequest,
  type HttpResponse,
  type ResponseStream,
} from '../../transport/http1/http-message.ts'
import { WrappedRequest, WrappedStream } from './wrapped-request.ts'

/** A request that writes a line into the access log when it is answered. */
export class LoggedRequest extends WrappedRequest {
  readonly #log: AccessLog
  readonly #clock: Clock
  readonly #startNs: number
  #inference: InferenceRequest | null = null
  #modelVersion = ''
  #isAborted = false

  constructor(inner: HttpRequest, log: AccessLog, clock: Clock) {
    super(inner)
    this.#log = log
    this.#clock = clock
    this.#startNs = clock.nowNs()
  }

  override get onDisconnect(): (() => void) | null {
    return this.inner.onDisconnect
  }
  override set onDisconnect(listener: (() => void) | null) {
    this.inner.onDisconnect =
      listener === null
        ? null
        : () => {
            this.#isAborted = true
            listener()
          }
  }

  override noteInference(inference: InferenceRequest, version: string): void {
    this.#inference = inference
    this.#modelVersion = version
  }

  override respond(response: HttpResponse): void {
    // The log comes first: after the answer the transport may reuse the request for the next one.
    this.#write(response.status, response.bodyBytes)
    this.inner.respond(response)
  }

  override stream(head: HttpResponse): ResponseStream {
    return new WrappedStream(this.inner.stream(head), ({ bytes, isAborted }) => {
      this.#isAborted ||= isAborted
      this.#write(head.status, bytes)
    })
  }

  #write(status: number, bytesOut: number): void {
    const { method, target, remoteAddress, caller, headers, body } = this.inner
    const query = target.indexOf('?')
    this.#log.write({
      protocol: 'http',
      method,
      path: query < 0 ? target : target.slice(0, query),
      status,
      client: remoteAddress,
      caller: (caller as Caller | null)?.principal ?? '',
      tenant: (caller as Caller | null)?.tenant ?? '',
      bytesIn: body.length,
      bytesOut,
      totalNs: this.#clock.nowNs() - this.#startNs,
      isAborted: this.#isAborted,
      traceparent: headerOf(headers, 'traceparent') ?? '',
      modelVersion: this.#modelVersion,
      inference: this.#inference,
    })
  }
}
