// Vertex AI's contract for a container: a path for health and a path for predictions, both from the environment. A header of
// a prediction can lead it to another path of v2, because Vertex AI passes no other path on.

import type { Admission, Verdict } from '../../access/admission.ts'
import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { emptyResponse, messageResponse } from '../../ports/http/error-response.ts'
import { HttpCallFacts } from '../../ports/http/http-call-facts.ts'
import { JsonHeaderSizeRequest, ownType } from '../../ports/http/json-header-size-request.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { anyMethod, everyOtherPath, get, large, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { Router, type RouteMatch } from '../../ports/http/router.ts'
import { refusalResponse } from '../../ports/http/refusal-response.ts'
import { refuseIn, telling } from '../../ports/http/telling.ts'
import { WrappedRequest } from '../../ports/http/wrapped-request.ts'
import { headerOf, jsonType, plainType } from '../../transport/http1/http-message.ts'

export type VertexAiSettings = {
  readonly predictRoute: string
  readonly healthRoute: string
  /** '' for the only model there is. */
  readonly defaultModel: string
}

export type VertexAiParts = {
  readonly engine: Engine
  readonly infer: RouteHandler
  /** The routes of v2, to which a redirect may lead, and those of the metrics port. */
  readonly v2: readonly Route[]
  readonly metrics: () => readonly Route[]
  /** Asked again for the API that a redirect leads to; null: everybody is admitted. */
  readonly admission: Admission | null
}

const mediaType = 'application/vnd.vertex-ai-triton.binary+json'
const redirectHeader = 'x-vertex-ai-triton-redirect'

/** Where a redirect may lead: what shows, and inference. */
const allowed: readonly RegExp[] = [
  /^\/metrics$/,
  /^\/v2(\/health\/(live|ready))?$/,
  /^\/v2\/models\/stats$/,
  /^\/v2\/models\/[^/]+(\/versions\/\d+)?(\/(ready|config|stats|infer|generate|generate_stream))?$/,
  /^\/v2\/(system|cuda)sharedmemory(\/region\/[^/]+)?\/status$/,
  /^\/v2\/repository(\/[^/]+)?\/index$/,
]
const sent: RegExp = /\/(infer|generate|generate_stream|index)$/
/** Where it may not lead: what changes the server. */
const forbidden: readonly RegExp[] = [
  /^\/v2\/(system|cuda)sharedmemory(\/region\/[^/]+)?\/(un)?register$/,
  /^\/v2\/repository(\/[^/]+)?\/models\/[^/]+\/(un)?load$/,
]

/** Throws INVALID_ARG unless the default model is there, as Triton does when it starts. */
export function vertexAiRoutes(parts: VertexAiParts, settings: VertexAiSettings): Route[] {
  const { engine } = parts
  const model = requireDefaultModel(engine, settings.defaultModel)
  const redirects = new Redirects(parts)
  const health = (http: PortRequest): void => http.respond(emptyResponse(engine.isReady ? 200 : 400))
  const predict = telling(refuseIn(engine, ownType(engine.wording)), (http, _, version, caller) => {
    const redirect = headerOf(http.headers, redirectHeader)
    if (redirect !== null) redirects.follow(http, `/${redirect}`)
    else parts.infer(new JsonHeaderSizeRequest(http, mediaType), model, version, caller)
  })
  const text = `Vertex AI has the paths ${settings.predictRoute} and ${settings.healthRoute}`
  const unknown = (http: PortRequest): void =>
    http.respond(engine.wording.isTriton ? emptyResponse(400) : messageResponse(400, text, jsonType))
  return [
    get(settings.healthRoute, 'health', health, plainType),
    large(post(settings.predictRoute, 'inference', predict, plainType)),
    { ...get(everyOtherPath, 'metadata', unknown), methods: anyMethod },
  ]
}

class Redirects {
  readonly #parts: VertexAiParts
  #router: Router | null = null

  constructor(parts: VertexAiParts) {
    this.#parts = parts
  }

  #find(target: string): RouteMatch | null {
    const { v2, metrics } = this.#parts
    // Every other path of the metrics port is an empty page; here it is not there. KServe's page of that name is not meant.
    const isPage = ({ path }: Route): boolean => path === '/metrics'
    this.#router ??= new Router([...v2.filter((route) => !isPage(route)), ...metrics().filter(isPage)])
    return this.#router.find(target)
  }

  follow(http: PortRequest, target: string): void {
    const found = allowed.some((pattern) => pattern.test(target)) ? this.#find(target) : null
    if (found === null) {
      const isForbidden = forbidden.some((pattern) => pattern.test(target))
      const { isTriton } = this.#parts.engine.wording
      const status = isForbidden ? 403 : 400
      const why = isForbidden ? 'it changes the server' : 'there is no such path'
      const text = `the header X-Vertex-Ai-Triton-Redirect may not lead to '${target.slice(0, 200)}': ${why}`
      http.respond(isTriton ? emptyResponse(status) : messageResponse(status, text, jsonType))
      return
    }
    const { route, modelName, modelVersion } = found
    const request = new RedirectedRequest(new JsonHeaderSizeRequest(http, mediaType), target)
    const judge = (verdict: Verdict): void => {
      if (verdict.kind === 'refused') http.respond(refusalResponse(verdict))
      else route.handle(request, modelName, modelVersion, verdict)
    }
    const { admission } = this.#parts
    if (admission === null) {
      judge(http.caller as Caller)
      return
    }
    const verdict = admission.admit(new HttpCallFacts('http', found, request))
    if (!(verdict instanceof Promise)) judge(verdict)
    else {
      const failed = (): void =>
        http.respond(messageResponse(500, 'the server could not find out who calls', plainType))
      verdict.then(judge).catch(failed)
    }
  }
}

class RedirectedRequest extends WrappedRequest {
  readonly #target: string

  constructor(inner: PortRequest, target: string) {
    super(inner)
    this.#target = target
  }

  override get target(): string {
    return this.#target
  }
  override get method(): string {
    return sent.test(this.#target) ? 'POST' : 'GET'
  }
}

function requireDefaultModel(engine: Engine, named: string): string {
  const names = new Set(engine.index().filter(({ state }) => state === 'READY').map(({ name }) => name)) // prettier-ignore
  const [only] = names
  if (named === '' && (only === undefined || names.size > 1)) {
    throw new ServerError(
      'INVALID_ARG',
      'Expect the model repository contains only a single model if default model is not specified',
    )
  }
  if (named !== '' && !names.has(named)) {
    throw new ServerError('INVALID_ARG', `Expect the default model '${named}' is loaded`)
  }
  return named === '' ? (only as string) : named
}
