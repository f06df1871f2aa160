import type { ApiName } from '../../access/api-name.ts'
import type { CallFacts } from '../../access/call-facts.ts'
import { headerOf, type HttpRequest } from '../../transport/http1/http-message.ts'

/** The facts of an HTTP request that are known before its body. */
export class HttpCallFacts implements CallFacts {
  readonly protocol: 'http' | 'metrics'
  readonly api: ApiName
  readonly #request: HttpRequest

  constructor(protocol: 'http' | 'metrics', api: ApiName, request: HttpRequest) {
    this.protocol = protocol
    this.api = api
    this.#request = request
  }

  get path(): string {
    return this.#request.target
  }
  get peer(): string {
    return this.#request.remoteAddress
  }
  header(name: string): string | null {
    return headerOf(this.#request.headers, name)
  }
}
