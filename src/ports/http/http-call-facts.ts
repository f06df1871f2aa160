import type { Action } from '../../access/action.ts'
import type { AdmissionFacts, ClientCertificate } from '../../access/admission-facts.ts'
import type { ApiName } from '../../access/api-name.ts'
import { headerOf, type HttpRequest } from '../../transport/http1/http-message.ts'
import { pathOf, type RouteMatch } from './router.ts'

/** The facts of an HTTP request that are known before its body. */
export class HttpCallFacts implements AdmissionFacts {
  readonly protocol: 'http' | 'metrics'
  readonly api: ApiName
  readonly action: Action
  readonly model: string
  readonly isForAll: boolean
  readonly isOfConsole: boolean
  readonly isForSelf: boolean
  readonly isStream = false
  readonly #request: HttpRequest

  constructor(protocol: 'http' | 'metrics', { route, model }: RouteMatch, request: HttpRequest) {
    this.protocol = protocol
    this.api = route.api
    this.action = route.action ?? route.api
    this.model = model
    this.isForAll = route.isForAll === true
    this.isOfConsole = route.isOfConsole === true
    this.isForSelf = route.isForSelf === true
    this.#request = request
  }

  /** As the router finds it: a rule about paths must not see another path than the one that is served. */
  get path(): string {
    return pathOf(this.#request.target)
  }
  get peer(): string {
    return this.#request.remoteAddress
  }
  /** A connection keeps the head of its last request while the next one repeats it. */
  get head(): object {
    return this.#request.headers
  }
  get bodyBytes(): number {
    return Number(this.header('content-length') ?? 0) || 0
  }
  header(name: string): string | null {
    return headerOf(this.#request.headers, name)
  }
  certificate(): ClientCertificate | null {
    return this.#request.peerCertificate?.() ?? null
  }
}
