import { createHash } from 'node:crypto'
import type { Caller } from '../../access/caller.ts'
import { visibleModels } from '../../access/require-right.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { loadFormatHeader, type LoadSource } from '../../model/load-source.ts'
import { noCall } from '../../model/error-wording.ts'
import { encodeHealthDetail, encodeStarting } from '../../protocol/health-json.ts'
import { encodeModelConfigJson } from '../../protocol/model-config-json.ts'
import type { buildOpenApi } from '../../protocol/openapi.ts'
import {
  emptyResponse,
  errorResponse,
  httpStatusOf,
  jsonResponse,
  notReadyBody,
  retryHeaders,
} from '../../ports/http/error-response.ts'
import { handlersOnDemand } from '../../ports/http/handlers-on-demand.ts'
import { fail } from '../../ports/http/json-answers.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import { headerOf, HttpResponse, jsonType, plainType, type HttpRequest } from '../../transport/http1/http-message.ts'

type BuildOpenApi = typeof buildOpenApi

/** The GET endpoints for readiness, metadata and configuration. */
export class MetadataEndpoints {
  readonly #engine: Engine
  readonly #hasTfserving: boolean
  /** Null: nobody is told the load. */
  readonly #load: LoadSource | null
  readonly #serverMetadata: Buffer
  /** The ready models, as a hash. */
  #models: { readonly revision: number; readonly headers: readonly string[] } | null = null
  #openApi: { readonly revision: number; readonly body: Buffer } | null = null

  constructor(engine: Engine, hasTfserving: boolean, load: LoadSource | null = null) {
    this.#engine = engine
    this.#load = load
    this.#hasTfserving = hasTfserving
    this.#serverMetadata = encodeJson(engine.serverMetadata())
  }

  readonly live = (request: HttpRequest): void => {
    const { isLive } = this.#engine
    request.respond(this.#told(request, { live: isLive }, emptyResponse(isLive ? 200 : 400)))
  }

  /**
   * KServe's own server answers with JSON, and its Python client reads a good answer as JSON without asking for it. That client is known
   * by its library. Who asks for JSON gets it, too. All others get the empty body of Triton.
   */
  #told(request: HttpRequest, value: object, empty: HttpResponse): HttpResponse {
    if (this.#engine.wording.isTriton) return empty
    const asks = headerOf(request.headers, 'accept')?.includes(jsonType) ?? false
    const isKServeClient = headerOf(request.headers, 'user-agent')?.startsWith('python-httpx/') ?? false
    const wantsJson = asks || (empty.status === 200 && isKServeClient)
    return wantsJson ? new HttpResponse(empty.status, jsonType, [encodeJson(value)], { headers: empty.headers }) : empty
  }

  /** While models load for the first time, the answer says which. */
  readonly ready: RouteHandler = (request, _name, _version, caller) => {
    const engine = this.#engine
    const { isReady } = engine
    if (!engine.isStarting)
      request.respond(this.#told(request, { ready: isReady }, this.#readiness(request, isReady ? 200 : 400, caller)))
    else request.respond(startingResponse(engine, caller))
  }

  /**
   * The header changes with the models that serve: who asks for health sees cheaply that it has to look at the index. The load is told
   * to who asks for it.
   */
  #readiness(request: HttpRequest, status: number, caller: Caller): HttpResponse {
    const engine = this.#engine
    if (engine.wording.isTriton) return emptyResponse(status)
    if (this.#models?.revision !== engine.revision) {
      const names = [...engine.models()].map(({ name, version }) => `${name}/${version}`).sort()
      const hash = createHash('sha256').update(names.join('\n')).digest('hex').slice(0, 16)
      this.#models = { revision: engine.revision, headers: ['galatea-models', hash] }
    }
    const format = this.#load === null ? null : headerOf(request.headers, loadFormatHeader)
    const load = format === null ? null : (this.#load?.header(format, caller) ?? null)
    const { headers } = this.#models
    return new HttpResponse(status, plainType, [], { headers: load === null ? headers : [...headers, ...load] })
  }

  /** Always 200; the health is in the body. The delay of the next turn of the event loop shows how busy it is. */
  readonly healthDetail: RouteHandler = (request, _name, _version, caller) => {
    const { rights } = caller
    const isVisible = rights?.mayAll('console') === true ? null : visibleModels(caller, 'metadata')
    const askedMs = performance.now()
    setImmediate(() => {
      const { rss, heapUsed, external } = process.memoryUsage()
      const facts = {
        uptimeSecs: Math.round(process.uptime()),
        eventLoopDelayMs: Math.round((performance.now() - askedMs) * 1000) / 1000,
        rssBytes: rss,
        heapUsedBytes: heapUsed,
        externalBytes: external,
      }
      request.respond(jsonResponse(encodeHealthDetail(this.#engine.health(isVisible ?? undefined), facts)))
    })
  }

  readonly serverMetadata = (request: HttpRequest): void => request.respond(jsonResponse(this.#serverMetadata))

  readonly modelReady = (request: HttpRequest, name: string, version: string): void =>
    answer(request, plainType, () => {
      const ready = this.#engine.isModelReady(name, version)
      return this.#told(
        request,
        { name, ready },
        ready ? emptyResponse(200) : new HttpResponse(400, plainType, [notReadyBody]),
      )
    })

  readonly modelMetadata: RouteHandler = (request, name, version, caller) =>
    answer(
      request,
      jsonType,
      () => jsonResponse(encodeJson(this.#engine.modelMetadata(name, version))),
      this.#tell(caller),
    )

  readonly modelConfig: RouteHandler = (request, name, version, caller) =>
    answer(
      request,
      jsonType,
      () => jsonResponse(Buffer.from(encodeModelConfigJson(this.#engine.findVersion(name, version).config))),
      this.#tell(caller),
    )

  #tell(caller: Caller): (reason: unknown) => ServerError {
    return (reason) => this.#engine.wording.tell(reason, { ...noCall, caller })
  }

  /** The code that describes the API is read with the first request for it. */
  readonly openApi: RouteHandler = handlersOnDemand(
    () => import('../../protocol/openapi.ts'),
    fail,
  )(
    ({ buildOpenApi: build }) =>
      (request, _name, _version, caller) =>
        this.#answerOpenApi(request, caller, build),
  )

  #answerOpenApi(request: HttpRequest, caller: Caller, build: BuildOpenApi): void {
    answer(request, jsonType, () => {
      const { revision } = this.#engine
      const isVisible = visibleModels(caller, 'metadata')
      if (isVisible !== null) return jsonResponse(this.#describeApi(build, isVisible))
      if (this.#openApi?.revision !== revision) {
        this.#openApi = { revision, body: this.#describeApi(build, () => true) }
      }
      return jsonResponse(this.#openApi.body)
    })
  }

  #describeApi(build: BuildOpenApi, isVisible: (model: string) => boolean): Buffer {
    const { name, version } = this.#engine.serverMetadata()
    const models = [...this.#engine.models()].filter((model) => isVisible(model.name))
    const hasTfserving = this.#hasTfserving
    return encodeJson(build({ serverName: name, serverVersion: version, models, hasTfserving }))
  }
}

function startingResponse(engine: Engine, caller: Caller): HttpResponse {
  const isVisible = visibleModels(caller, 'metadata') ?? undefined
  const error = engine.startingError(isVisible)
  const body = encodeStarting(error.message, engine.health(isVisible).loading)
  return new HttpResponse(httpStatusOf[error.code], jsonType, [body], { headers: retryHeaders(error) })
}

function answer(
  request: HttpRequest,
  errorType: string,
  make: () => HttpResponse,
  tell: (reason: unknown) => ServerError = (reason) => ServerError.from(reason),
): void {
  let response: HttpResponse
  try {
    response = make()
  } catch (reason) {
    response = errorResponse(tell(reason), errorType)
  }
  request.respond(response)
}

const encodeJson = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))
