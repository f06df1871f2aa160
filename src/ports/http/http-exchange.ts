import type { Caller } from '../../access/caller.ts'
import { InferenceExchange, type ArrivalNames, type ExchangeParts } from '../../exchange/inference-exchange.ts'
import type { InferenceRequest } from '../../model/inference-request.ts'
import { headerOf } from '../../transport/http1/http-message.ts'
import type { PortRequest } from './port-request.ts'
import { TracedRequest } from './traced-request.ts'

const arrivalNames: ArrivalNames = ['HTTP_RECV_START', 'HTTP_RECV_END']

/** An inference that came by HTTP: the facts of its request, its disconnect and the stamps of its answer. */
export abstract class HttpExchange extends InferenceExchange {
  protected readonly http: PortRequest
  #answering: PortRequest | null = null

  constructor(parts: ExchangeParts, http: PortRequest, caller: Caller, answersOnce: boolean) {
    super(parts, caller, answersOnce)
    this.http = http
    http.onDisconnect = () => this.cancel()
  }

  get protocol(): 'http' {
    return 'http'
  }
  get path(): string {
    return this.http.target
  }
  get peer(): string {
    return this.http.remoteAddress
  }
  header(name: string): string | null {
    return headerOf(this.http.headers, name)
  }

  protected get arrivalNames(): ArrivalNames {
    return arrivalNames
  }

  protected override started(request: InferenceRequest): void {
    this.http.noteInference?.(request, this.version.version)
  }

  /** The request to answer. Read this before `write` or `fail` returns: from then on the trace waits for the answer. */
  protected get answering(): PortRequest {
    const trace = this.request?.trace ?? null
    this.#answering ??= trace === null ? this.http : new TracedRequest(this.http, trace, this.parts.clock)
    return this.#answering
  }
}
