// CORS: tells browsers which web pages of other origins may call the server and read its answers.

import { ServerError } from '../../base/server-error.ts'
import {
  headerOf,
  HttpResponse,
  plainType,
  type HttpRequest,
  type ResponseStream,
} from '../../transport/http1/http-message.ts'
import { WrappedRequest } from './wrapped-request.ts'

/** Browsers keep the answer to a preflight request for two hours at most. */
const maxAgeSeconds = 7200
/** Headers of an answer that a page may read beside the ones that every page may read. */
const exposedHeaders = 'Inference-Header-Content-Length, endpoint-load-metrics'
const headerNames = /^[\w!#$%&'*+.^`|~-]+(?:[ \t]*,[ \t]*[\w!#$%&'*+.^`|~-]+)*$/

export class CrossOriginPolicy {
  readonly #origins: ReadonlySet<string>
  readonly #isForAll: boolean

  /** Throws INVALID_ARG for a text that is not an origin. */
  constructor(origins: readonly string[]) {
    for (const origin of origins) validateOrigin(origin)
    this.#origins = new Set(origins)
    this.#isForAll = this.#origins.has('*')
  }

  /** The request with CORS headers in its answer; null when it was a preflight request, which is answered here. */
  admit(request: HttpRequest): HttpRequest | null {
    const headers = this.answerHeaders(request)
    if (!isPreflight(request)) return new CrossOriginRequest(request, headers)
    request.respond(new HttpResponse(200, plainType, [], { headers: this.#preflightHeaders(request, headers) }))
    return null
  }

  answerHeaders(request: HttpRequest): readonly string[] {
    if (this.#isForAll) return ['Access-Control-Allow-Origin', '*', 'Access-Control-Expose-Headers', exposedHeaders]
    const origin = headerOf(request.headers, 'origin')
    // A cache must not give one origin's answer to another, so `Vary` is sent also when nothing is allowed.
    const vary = ['Vary', 'Origin']
    if (origin === null || !this.#origins.has(origin)) return vary
    return ['Access-Control-Allow-Origin', origin, 'Access-Control-Expose-Headers', exposedHeaders, ...vary]
  }

  /** All request headers are allowed: each API decides itself which headers it reads. */
  #preflightHeaders(request: HttpRequest, headers: readonly string[]): readonly string[] {
    if (headers[0] !== 'Access-Control-Allow-Origin') return headers
    const asked = headerOf(request.headers, 'access-control-request-headers')
    const allowed = asked === null || !headerNames.test(asked) ? [] : ['Access-Control-Allow-Headers', asked]
    return [
      ...headers.slice(0, 2),
      'Access-Control-Allow-Methods',
      'GET, POST',
      ...allowed,
      'Access-Control-Max-Age',
      String(maxAgeSeconds),
      'Vary',
      this.#isForAll ? 'Access-Control-Request-Headers' : 'Origin, Access-Control-Request-Headers',
    ]
  }
}

/** A preflight request, which a browser sends before the request itself. It carries no credentials. */
export const isPreflight = ({ method, headers }: HttpRequest): boolean =>
  method === 'OPTIONS' && headerOf(headers, 'access-control-request-method') !== null

export function validateOrigin(origin: string): void {
  if (origin === '*' || (URL.canParse(origin) && new URL(origin).origin === origin && origin !== 'null')) return
  throw new ServerError(
    'INVALID_ARG',
    `--http-cors-origin: expected '*' or an origin as browsers send it, like https://app.example.com or ` +
      `http://localhost:3000 (scheme, host and port, no path), got '${origin}'`,
  )
}

class CrossOriginRequest extends WrappedRequest {
  readonly #headers: readonly string[]

  constructor(inner: HttpRequest, headers: readonly string[]) {
    super(inner)
    this.#headers = headers
  }

  override respond(response: HttpResponse): void {
    this.inner.respond(withHeaders(response, this.#headers))
  }

  override stream(head: HttpResponse): ResponseStream {
    return this.inner.stream(withHeaders(head, this.#headers))
  }
}

export function withHeaders(response: HttpResponse, more: readonly string[]): HttpResponse {
  const { status, contentType, parts, release, closesConnection } = response
  const headers = [...response.headers, ...more]
  return new HttpResponse(status, contentType, parts, { headers, release, closesConnection })
}
