// Connects a list of routes with a transport: admits the caller of a request and finds its route.

import type { Admission, Verdict } from '../../access/admission.ts'
import { anonymous, type Caller } from '../../access/caller.ts'
import { assert } from '../../base/assert.ts'
import type { AccessLog } from '../../base/access-log.ts'
import type { Clock } from '../../base/clock.ts'
import { turnBudget } from '../../base/turn-budget.ts'
import type { Log } from '../../base/log.ts'
import { messageOf } from '../../base/server-error.ts'
import type { RefusalCounts } from '../../model/refusal-counts.ts'
import type { BodyRefusal } from '../../transport/http1/body-collector.ts'
import { headerOf, HttpResponse, jsonType, plainType, type HttpRequest } from '../../transport/http1/http-message.ts'
import type { HttpService } from '../../transport/http1/http-service.ts'
import type { HttpTransportOptions } from '../../transport/http1/http-transport-options.ts'
import { NetHttpTransport, type HttpTransportDependencies } from '../../transport/http1/net-http-transport.ts'
import type { TrafficMeter } from '../../transport/traffic-meter.ts'
import { CrossOriginPolicy, isPreflight, withHeaders } from './cross-origin.ts'
import { messageResponse, notAllowedBody, notFoundBody } from './error-response.ts'
import { refusalResponse } from './refusal-response.ts'
import { ForeignPages } from './foreign-pages.ts'
import { StandingCalls } from '../standing-calls.ts'
import { LastingRequest } from './lasting-request.ts'
import { LimitedRequest } from './limited-request.ts'
import { LoggedRequest } from './logged-request.ts'
import { HttpCallFacts } from './http-call-facts.ts'
import type { PortRequest } from './port-request.ts'
import type { Route, RouteHandler } from './route.ts'
import { Router, type RouteMatch } from './router.ts'

type HttpPortDependencies = HttpTransportDependencies & {
  /** Null: everybody is admitted. */
  readonly admission: Admission | null
  /** Counts bodies that the port itself refuses; left out: they are not counted. */
  readonly refusals?: RefusalCounts
  /** Left out: no access log is written. */
  readonly accessLog?: AccessLog
  /** The text of a 404; left out: Triton's texts for unknown paths and methods. */
  readonly pathHint?: (target: string) => string
  /** Names in paths are percent-decoded; left out: they are what was sent, as in Triton. */
  readonly decodesNames?: boolean
  /** The threads that the routes share; they end with the port. */
  readonly offload?: { close(): void }
}

type HttpPortOptions = HttpTransportOptions & {
  /** The port's protocol in CallFacts. */
  readonly protocol: 'http' | 'metrics'
  /** The origins whose pages may call the server from a browser; `*` for all. */
  readonly corsOrigins: readonly string[]
  /** The names in `Host` that are answered beside those of loopback; `*` for all. */
  readonly allowedHosts: readonly string[]
  /** True: the limits have flags `--http-…`, and refusals name the flag. */
  readonly hasFlags: boolean
  /** True, as in Triton: who sends what is no request of HTTP is not told why. */
  readonly closesMalformed?: boolean
  /** Where a browser that asks for `/` is sent; left out: nowhere. */
  readonly homePath?: string
}

/** The most bytes of a body without tensors or models: to read them takes up to 20 ms. */
const mostControlBytes = 1024 * 1024

/** What is held for clients goes back within seconds. */
const retryHeaders = ['Retry-After', '1']

const bodyTooLargeForEndpoint = (bodyBytes: number, limitBytes: number): string =>
  `request body of ${bodyBytes} bytes exceeds the maximum of ${limitBytes} bytes for this endpoint`

/** One port: its transport, its access rules and its routes. */
export class HttpPort implements HttpService {
  readonly #log: Log
  readonly #options: HttpPortOptions
  #router: Router
  readonly #admission: Admission | null
  /** Null: pages of other origins may not read answers. */
  readonly #crossOrigin: CrossOriginPolicy | null
  readonly #foreignPages: ForeignPages
  readonly #pathHint: ((target: string) => string) | null
  readonly #offload: { close(): void } | null
  readonly #transport: NetHttpTransport
  readonly #refusals: RefusalCounts | null
  readonly #accessLog: AccessLog | null
  readonly #clock: Clock
  /** Null: nobody is asked who calls. */
  readonly #standing: StandingCalls | null
  #isDraining = false

  constructor(dependencies: HttpPortDependencies, options: HttpPortOptions, routes: readonly Route[]) {
    this.#log = dependencies.log.from('http-port.ts')
    this.#options = options
    this.#refusals = dependencies.refusals ?? null
    this.#accessLog = dependencies.accessLog ?? null
    this.#clock = dependencies.clock
    this.#admission = dependencies.admission
    this.#standing = this.#admission === null ? null : new StandingCalls(this.#clock, this.#admission)
    this.#crossOrigin = options.corsOrigins.length === 0 ? null : new CrossOriginPolicy(options.corsOrigins)
    this.#foreignPages = new ForeignPages({ ...options, isTls: options.tls !== null })
    this.#offload = dependencies.offload ?? null
    this.#pathHint = dependencies.pathHint ?? null
    this.#router = new Router(routes, dependencies.decodesNames)
    this.#transport = new NetHttpTransport(dependencies, options, this)
  }

  /** The address and the real port, also when the option was port 0. */
  async listen(): Promise<{ address: string; port: number }> {
    return this.#transport.listen()
  }

  /** The route of a target, for calls from inside the server. */
  find(target: string): RouteMatch | null {
    return this.#router.find(target)
  }

  /** Counts the bytes of all connections. */
  get traffic(): TrafficMeter {
    return this.#transport.traffic
  }

  /**
   * Until the result is called, only what asks about the server as a whole is answered; all else gets `refuse`. The routes
   * stay the same, so that no request pays for it later.
   */
  hold(refuse: (caller: Caller) => HttpResponse): () => void {
    const open = this.#router
    const handle: RouteHandler = (request, _name, _version, caller) => request.respond(refuse(caller))
    this.#router = new Router(
      open.routes.map((route) => (isOfServer(route) ? route : { ...route, handle })),
      open.decodesNames,
    )
    return () => void (this.#router = open)
  }

  /** Refuses new requests, answers those in flight and then closes each connection; resolves when all are closed. */
  async drain(): Promise<void> {
    this.#isDraining = true
    await this.#transport.drain()
  }

  /** Ends every connection at once. Twice is fine. */
  async close(): Promise<void> {
    this.#isDraining = true
    this.#standing?.close()
    await this.#transport.close()
    this.#offload?.close()
  }

  /** HOT: once per request. Without an Admission everybody passes but the pages of strangers. */
  admit(request: HttpRequest): HttpResponse | null | Promise<HttpResponse | null> {
    const foreign = this.#foreignPages.refusal(request)
    if (foreign !== null) return this.#refuse(request, messageResponse(403, foreign, plainType))
    if (this.#admission === null) {
      request.caller = anonymous
      return null
    }
    // `handle` answers a preflight request, and an unknown path with 404.
    if (this.#crossOrigin !== null && isPreflight(request)) return null
    const match = this.#router.find(request.target)
    if (match === null) return null
    if (match.route.isOpen === true) {
      request.caller = anonymous
      return null
    }
    try {
      const verdict = this.#admission.admit(new HttpCallFacts(this.#options.protocol, match, request))
      return verdict instanceof Promise ? this.#judgeLater(request, verdict) : this.#judge(request, verdict)
    } catch (reason) {
      return this.#admissionFailed(request, reason)
    }
  }

  async #judgeLater(request: HttpRequest, verdict: Promise<Verdict>): Promise<HttpResponse | null> {
    try {
      return this.#judge(request, await verdict)
    } catch (reason) {
      return this.#admissionFailed(request, reason)
    }
  }

  #admissionFailed(request: HttpRequest, reason: unknown): HttpResponse {
    this.#log.error('admission failed', { target: request.target, reason: messageOf(reason) })
    return messageResponse(500, 'the server could not find out who calls', plainType)
  }

  #judge(request: HttpRequest, verdict: Verdict): HttpResponse | null {
    if (verdict.kind !== 'refused') {
      request.caller = verdict
      return null
    }
    return this.#refuse(request, refusalResponse(verdict))
  }

  /** In the form of the route's protocol. */
  #worded(request: HttpRequest, refusal: HttpResponse): HttpResponse {
    return this.#router.find(request.target)?.route.refusal?.(refusal) ?? refusal
  }

  #refuse(request: HttpRequest, given: HttpResponse): HttpResponse {
    const refusal = this.#worded(request, given)
    if (this.#accessLog !== null) this.#logRefusal(this.#accessLog, request, refusal.status, 0)
    return this.#crossOrigin === null ? refusal : withHeaders(refusal, this.#crossOrigin.answerHeaders(request))
  }

  /** HOT: once per request. */
  handle(request: HttpRequest): void {
    if (this.#log.isVerbose()) this.#log.verbose(requestLine(request))
    try {
      const admitted = this.#crossOrigin === null ? request : this.#crossOrigin.admit(request)
      if (admitted !== null) this.#dispatch(this.#logged(this.#admission === null ? admitted : limited(admitted)))
    } catch (reason) {
      // No endpoint should throw. If one does, its request still gets an answer and the server goes on.
      this.noteFault(request, reason)
      request.respond(messageResponse(500, 'internal error of the HTTP front end', plainType))
    }
  }

  /** Without the query, which may have credentials in it. */
  noteFault({ target }: HttpRequest, reason: unknown): void {
    this.#log.error('HTTP endpoint failed', { target: target.split('?', 1)[0], reason: messageOf(reason) })
  }

  #logged(request: HttpRequest): HttpRequest {
    return this.#accessLog === null ? request : new LoggedRequest(request, this.#accessLog, this.#clock)
  }

  #dispatch(request: HttpRequest): void {
    const match = this.#router.find(request.target)
    const isHome = match === null || match.route.path === '/'
    if (isHome && this.#options.homePath !== undefined && isBrowserAtRoot(request)) {
      request.respond(redirect(this.#options.homePath))
      return
    }
    if (match === null) {
      const hint = this.#pathHint?.(request.target)
      request.respond(
        hint === undefined ? new HttpResponse(404, plainType, [notFoundBody]) : messageResponse(404, hint, jsonType),
      )
      return
    }
    const { route } = match
    if (!route.methods.includes(request.method)) {
      const wrong = this.#pathHint === null ? wrongMethod(route) : allowedMethods(route, request.method)
      request.respond(this.#worded(request, wrong))
    } else if (this.#isDraining) {
      const headers = this.#pathHint === null ? [] : retryHeaders
      request.respond(this.#worded(request, messageResponse(503, 'Server exiting', plainType, { headers })))
    } else if (request.body.length > mostControlBytes && route.takesLargeBody !== true) {
      const limit = bodyTooLargeForEndpoint(request.body.length, mostControlBytes)
      request.respond(this.#worded(request, messageResponse(400, limit, jsonType)))
    } else if (route.takesLargeBody === true) {
      route.handle(request, match.modelName, match.modelVersion, callerOf(request))
    } else this.#control(route, request, match)
  }

  /** What these routes take follows the number of models, not the bytes of the request. */
  #control({ handle, lasts }: Route, request: PortRequest, match: RouteMatch): void {
    const startNs = this.#clock.nowNs()
    const handled = lasts === true && this.#standing !== null ? this.#lasting(request, match, this.#standing) : request
    handle(handled, match.modelName, match.modelVersion, callerOf(request))
    turnBudget.spendNs(this.#clock.nowNs() - startNs)
  }

  #lasting(request: PortRequest, match: RouteMatch, standing: StandingCalls): PortRequest {
    const lasting = new LastingRequest(request)
    standing.add({
      facts: new HttpCallFacts(this.#options.protocol, match, request),
      isOver: () => lasting.isOver,
      renewed: () => undefined,
      end: () => lasting.end(),
    })
    return lasting
  }

  refuseBody(request: HttpRequest, reason: BodyRefusal, bodyBytes: number): HttpResponse {
    const isBusy = reason === 'no-memory' || reason === 'over-budget'
    this.#refusals?.countAs(isBusy ? 'unavailable' : 'too_large')
    const status = isBusy ? 503 : 400
    const text = this.#bodyRefusal(request, reason, bodyBytes)
    const headers = isBusy ? retryHeaders : []
    const refusal = this.#worded(request, messageResponse(status, text, jsonType, { headers, closesConnection: true }))
    if (this.#accessLog !== null) this.#logRefusal(this.#accessLog, request, status, bodyBytes)
    return this.#crossOrigin === null ? refusal : withHeaders(refusal, this.#crossOrigin.answerHeaders(request))
  }

  #logRefusal(log: AccessLog, request: HttpRequest, status: number, bytesIn: number): void {
    log.write({
      protocol: 'http',
      method: request.method,
      path: request.target.split('?', 1)[0] ?? '',
      status,
      client: request.remoteAddress,
      caller: '',
      tenant: '',
      bytesIn,
      bytesOut: null,
      totalNs: 0,
      isAborted: false,
      traceparent: '',
      modelVersion: '',
      inference: null,
    })
  }

  #bodyRefusal(request: HttpRequest, reason: BodyRefusal, bodyBytes: number): string {
    if (reason === 'over-budget') return this.#transport.clientMemory.refuse(bodyBytes)
    if (reason === 'no-memory')
      return `the server has no memory for a request body of ${bodyBytes} bytes, try again later`
    if (reason === 'too-many-chunks') {
      return 'Chunked request body exceeds maximum of 65536 non-empty chunks. Send fewer or larger HTTP chunks.'
    }
    const limit = `the maximum allowed input size of ${this.#options.bodyLimitBytes} bytes.`
    const advice = this.#advice('max-input-size', 'increase the limit')
    const isAllJson = headerOf(request.headers, 'inference-header-content-length') === null
    const isPlain = headerOf(request.headers, 'content-encoding') === null
    // Triton's text: without a header length the whole body is JSON. Uploads have paths that Triton has not.
    const isJson = isAllJson && isPlain && this.#router.find(request.target)?.route.isUpload !== true
    const what = isJson && this.#options.hasFlags ? 'request JSON size' : 'request body'
    return `${what} of ${bodyBytes} bytes exceeds ${limit}${advice}`
  }

  refuseMemory(answerBytes: number): HttpResponse {
    return messageResponse(503, this.#transport.clientMemory.refuse(answerBytes), jsonType, { headers: retryHeaders })
  }

  /** `arrivedBytes`: what came of the body within the time limit. */
  refuseStalledBody(arrivedBytes: number): HttpResponse {
    const { bodyIdleTimeoutMs, leastBodyRate } = this.#options
    const seconds = bodyIdleTimeoutMs / 1000
    if (arrivedBytes > 0) {
      const slow = `${arrivedBytes} bytes of the request body arrived in ${seconds} s, at least ${leastBodyRate} per second must.`
      return this.#refuseAndClose(408, `${slow}${this.#advice('body-min-rate', 'allow slower clients')}`)
    }
    const text = `no byte of the request body arrived for ${seconds} s.`
    return this.#refuseAndClose(408, `${text}${this.#advice('body-idle-timeout-secs', 'allow longer pauses')}`)
  }

  refuseHead(status: 400 | 408 | 431): HttpResponse {
    const { headersTimeoutMs, maxHeaderBytes } = this.#options
    if (status === 400)
      return this.#refuseAndClose(status, 'the request has both Content-Length and Transfer-Encoding: send one of them')
    if (status === 431) {
      const text = `the request's headers exceed ${maxHeaderBytes} bytes.`
      return this.#refuseAndClose(status, `${text}${this.#advice('max-header-size', 'increase the limit')}`)
    }
    const text = `the request's headers took longer than ${headersTimeoutMs / 1000} s to arrive.`
    return this.#refuseAndClose(status, `${text}${this.#advice('headers-timeout-secs', 'allow more time')}`)
  }

  refuseMalformed(fault: string): HttpResponse | null {
    return this.#options.closesMalformed === true ? null : this.#refuseAndClose(400, fault)
  }

  #refuseAndClose(status: number, text: string): HttpResponse {
    return messageResponse(status, text, jsonType, { closesConnection: true })
  }

  #advice(flag: string, purpose: string): string {
    return this.#options.hasFlags ? ` Use --http-${flag} to ${purpose}.` : ''
  }
}

/** Its health, its name and its pages. */
/** Methods in the order in which Triton numbers them; it has others between them. */
const tritonMethods = [
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  '',
  '',
  '',
  'OPTIONS',
  '',
  '',
  '',
  '',
  'TRACE',
  '',
  'PATCH',
]

/** As Triton logs each request at `--log-verbose=1`, without the query, which may have credentials in it. */
const requestLine = ({ method, target }: HttpRequest): string =>
  `HTTP request: ${tritonMethods.indexOf(method)} ${target.split('?', 1)[0]}`

const isOfServer = ({ api, path, isOpen }: Route): boolean =>
  isOpen === true || path === '/v2' || (api === 'health' && !path.includes('{model}'))

/** Programs that ask for `/` get the answer of every path that is not there. */
const isBrowserAtRoot = ({ method, target, headers }: HttpRequest): boolean =>
  target === '/' && method === 'GET' && (headerOf(headers, 'accept') ?? '').includes('text/html')

const redirect = (path: string): HttpResponse =>
  new HttpResponse(302, plainType, [], { headers: ['Location', path, 'Vary', 'Accept', 'Cache-Control', 'no-cache'] })

const wrongMethod = ({ wrongMethodType }: Route): HttpResponse =>
  new HttpResponse(405, wrongMethodType, [notAllowedBody])

function allowedMethods({ methods, path }: Route, method: string): HttpResponse {
  const headers = ['Allow', methods.join(', ')]
  const text = `Method Not Allowed: ${path} takes ${methods.join(' or ')}, got ${method}`
  return messageResponse(405, text, jsonType, { headers })
}

function limited(request: HttpRequest): HttpRequest {
  const account = (request.caller as Caller | null)?.account ?? null
  return account === null || !account.isLimited ? request : new LimitedRequest(request, account)
}

function callerOf({ caller }: HttpRequest): Caller {
  assert(caller !== null, 'a request is handled after it was admitted')
  return caller as Caller
}
