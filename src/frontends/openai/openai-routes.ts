// The paths of the OpenAI API. Its code is read when the first call comes, so that a start without such calls costs nothing.

import type { Account } from '../../access/account.ts'
import { OnDemand } from '../../base/on-demand.ts'
import { messageOf } from '../../base/server-error.ts'
import { withHeaders } from '../../ports/http/cross-origin.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import {
  acting,
  everyOtherPath,
  get,
  getOrPost,
  large,
  post,
  type Route,
  type RouteHandler,
} from '../../ports/http/route.ts'
import { WrappedRequest } from '../../ports/http/wrapped-request.ts'
import { headerOf, HttpResponse, jsonType, plainType, type ResponseStream } from '../../transport/http1/http-message.ts'
import type { OpenAiEndpoints, OpenAiLimits, OpenAiRouteParts } from './openai-endpoints.ts'

type Handler = (...call: Parameters<RouteHandler>) => boolean | void
type HandlerName = {
  [K in keyof OpenAiEndpoints]: OpenAiEndpoints[K] extends Handler ? (K extends 'close' ? never : K) : never
}[keyof OpenAiEndpoints]

/** The code of the API, once it is there. */
export class LazyOpenAi {
  readonly #parts: OpenAiRouteParts
  readonly #limits: OpenAiLimits
  #endpoints: OpenAiEndpoints | null = null
  readonly #loading = new OnDemand(() => this.#load())

  constructor(parts: OpenAiRouteParts, limits: OpenAiLimits) {
    this.#parts = parts
    this.#limits = limits
  }

  /** `otherwise` answers what the handler of that name leaves to it. */
  handler(name: HandlerName, otherwise: RouteHandler | null = null): RouteHandler {
    const handle = (endpoints: OpenAiEndpoints, ...call: Parameters<RouteHandler>): void => {
      if (endpoints[name](...call) === false) otherwise?.(...call)
    }
    return (...call) => {
      if (this.#endpoints !== null) handle(this.#endpoints, ...call)
      else {
        this.#loading
          .get()
          .then((endpoints) => handle(endpoints, ...call))
          .catch((reason: unknown) => failed(call[0], reason))
      }
    }
  }

  close(): void {
    this.#endpoints?.close()
  }

  async #load(): Promise<OpenAiEndpoints> {
    const { OpenAiEndpoints: Endpoints } = await import('./openai-endpoints.ts')
    this.#endpoints = new Endpoints(this.#parts, this.#limits)
    return this.#endpoints
  }
}

function failed(http: PortRequest, reason: unknown): void {
  const error = { message: messageOf(reason), type: 'server_error', param: null, code: null }
  http.respond(new HttpResponse(500, jsonType, [Buffer.from(JSON.stringify({ error }))]))
}

const types: Readonly<Record<number, readonly [type: string, code: string | null]>> = {
  401: ['invalid_request_error', 'invalid_api_key'],
  403: ['invalid_request_error', 'permission_denied'],
  429: ['rate_limit_error', 'rate_limit_exceeded'],
  503: ['server_error', 'server_overloaded'],
}

/** What the port refuses by itself, in the form that OpenAI's clients read. */
function openAiRefusal(refusal: HttpResponse): HttpResponse {
  const { status, headers, closesConnection } = refusal
  const [type, code] = types[status] ?? ['invalid_request_error', null]
  const error = { message: messageIn(Buffer.concat(refusal.parts).toString()), type, param: null, code }
  const all = [...headers, ...limitHeaders(headers)]
  return new HttpResponse(status, jsonType, [Buffer.from(JSON.stringify({ error }))], {
    headers: all,
    closesConnection,
  })
}

/** Of the limits in `RateLimit-Policy` and `RateLimit`, those that OpenAI's clients know, in the form that they know. */
function limitHeaders(headers: readonly string[]): string[] {
  const [policies, states] = ['ratelimit-policy', 'ratelimit'].map((name) => headerOf(headers, name)?.split(', ') ?? [])
  const told: string[] = []
  for (const unit of ['requests', 'tokens']) {
    // Of several limits of one unit the first is told.
    const at = policies?.findIndex((policy) => policy.startsWith(`"${unit}";`)) ?? -1
    const limit = /;q=(\d+)/.exec(policies?.[at] ?? '')?.[1]
    const [, left, secs] = /;r=(\d+);t=(\d+)/.exec(states?.[at] ?? '') ?? []
    if (limit === undefined || left === undefined || secs === undefined) continue
    told.push(`x-ratelimit-limit-${unit}`, limit, `x-ratelimit-remaining-${unit}`, left)
    told.push(`x-ratelimit-reset-${unit}`, `${secs}s`)
  }
  return told
}

/** A call of a tenant with limits: its answer tells them as OpenAI's API does, too. */
class LimitedCall extends WrappedRequest {
  readonly #account: Account

  constructor(inner: PortRequest, account: Account) {
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
    const headers = limitHeaders(this.#account.answerHeaders() ?? [])
    return headers.length === 0 ? response : withHeaders(response, headers)
  }
}

const tellingLimits =
  (handle: RouteHandler): RouteHandler =>
  (http, name, version, caller) =>
    handle(caller.account === null ? http : new LimitedCall(http, caller.account), name, version, caller)

/** `{"error": "…"}`, or a plain text. */
function messageIn(body: string): string {
  try {
    const { error } = JSON.parse(body) as { readonly error?: unknown }
    return typeof error === 'string' ? error : body
  } catch {
    return body
  }
}

/** What the HTTP port has. */
export const openAiRoutes = (api: LazyOpenAi): Route[] => sharedRoutes(api).map(asOpenAi)

const asOpenAi = (route: Route): Route => ({ ...route, refusal: openAiRefusal, handle: tellingLimits(route.handle) })

const sharedRoutes = (api: LazyOpenAi): Route[] => [
  large(post('/v1/chat/completions', 'inference', api.handler('chatCompletions'))),
  large(post('/v1/completions', 'inference', api.handler('completions'))),
  large(post('/v1/responses', 'inference', api.handler('responses'))),
  large(post('/v1/embeddings', 'inference', api.handler('embeddings'))),
  large(post('/v1/rerank', 'inference', api.handler('rerank'))),
  large(post('/tokenize', 'inference', api.handler('tokenize'))),
  large(post('/detokenize', 'inference', api.handler('detokenize'))),
  large(post('/v1/audio/transcriptions', 'inference', api.handler('transcriptions'))),
  getOrPost('/v1/batches', 'inference', api.handler('batches')),
  get('/v1/batches/{batch}', 'inference', api.handler('batch')),
  post('/v1/batches/{batch}/cancel', 'inference', api.handler('cancelBatch')),
  large(getOrPost('/v1/files', 'inference', api.handler('files'))),
  { ...get('/v1/files/{file}', 'inference', api.handler('file')), methods: ['GET', 'DELETE'] },
  get('/v1/files/{file}/content', 'inference', api.handler('fileContent')),
  post('/v1/models/{model}/load', 'model-repository', api.handler('loadModel')),
  post('/v1/models/{model}/unload', 'model-repository', api.handler('unloadModel')),
]

/** The paths that KServe v1 has too. Answers have the members of both; a model that takes no text is KServe's alone. */
export const openAiListRoutes = (api: LazyOpenAi, kserve: RouteHandler | null): Route[] => [
  get('/v1/models', 'metadata', api.handler(kserve === null ? 'listModels' : 'listBoth')),
  get('/v1/models/{model}', 'health', kserve === null ? api.handler('showModel') : api.handler('showBoth', kserve)),
]

/** What only the port of its own has, as Triton's OpenAI front end. `metrics` is the handler of the metrics page. */
export const openAiOwnRoutes = (api: LazyOpenAi, metrics: RouteHandler): Route[] => [
  ...[
    get('/v1/models', 'metadata', api.handler('listModels')),
    get('/v1/models/{model}', 'metadata', api.handler('showModel')),
    {
      ...get(everyOtherPath, 'metadata', (http) => http.respond(openAiRefusal(unknownUrl(http)))),
      methods: ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'],
    },
  ].map(asOpenAi),
  get('/health', 'health', api.handler('health')),
  get('/health/ready', 'health', api.handler('health')),
  acting('metrics', get('/metrics', 'statistics', metrics)),
]

const unknownUrl = ({ method, target }: PortRequest): HttpResponse =>
  new HttpResponse(404, plainType, [Buffer.from(`Invalid URL (${method} ${target.slice(0, 200)})`)])
