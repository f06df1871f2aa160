// TorchServe's three HTTP ports: predictions, management of models, metrics.

import { requireRight, visibleModels } from '../../access/require-right.ts'
import type { Caller } from '../../access/caller.ts'
import type { ServerError } from '../../base/server-error.ts'
import { httpChangeOrigin } from '../../ports/http/http-change-origin.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { everyOtherPath, large, type Route, type RouteHandler } from '../../ports/http/route.ts'
import type { ApiName } from '../../access/api-name.ts'
import { memberOf, parseJsonDocument } from '../../protocol/json-document.ts'
import { headerOf, HttpResponse, jsonType } from '../../transport/http1/http-message.ts'
import { inferenceDescription, managementDescription, modelDescription } from './torchserve-description.ts'
import { PredictionExchange, type PredictionParts } from './prediction-endpoint.ts'
import {
  answerError,
  answerJson,
  answerStatus,
  badRequest,
  TorchserveError,
  torchserveError,
  unknownResource,
  wrongMethod,
} from './torchserve-answers.ts'
import type { RegisterRequest, TorchserveModels } from './torchserve-models.ts'

type TorchserveSettings = {
  /** Clients may register and unregister models. */
  readonly allowsModelApi: boolean
}

export type TorchserveParts = PredictionParts & {
  readonly models: TorchserveModels
  /** Answers for models that are no archives of TorchServe, in the JSON of KServe v1. */
  readonly predict: RouteHandler
}

const anyMethod = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS']
const metricsType = 'text/plain; version=0.0.4; charset=utf-8'
/** As TorchServe: the largest page of a list. */
const mostListed = 100
/** More words behind the version of a path than this are an unknown path. */
const pathWords = ['a', 'b', 'c', 'd', 'e']

/** The path in parts, decoded; the first is ''. */
function partsOf(http: PortRequest): string[] {
  const path = (http.target.split('?', 1)[0] ?? '').replace(/^https?:\/\/[^/]*/i, '')
  try {
    return path.split('/').map(decodeURIComponent)
  } catch {
    throw badRequest('the path is not percent-encoded UTF-8')
  }
}

const queryOf = ({ target }: PortRequest): URLSearchParams =>
  new URLSearchParams(target.includes('?') ? target.slice(target.indexOf('?') + 1) : '')

/** Every route takes every method: TorchServe answers a wrong one in its own form. */
function route(path: string, api: ApiName, handle: RouteHandler): Route {
  const guarded: RouteHandler = (http, name, version, caller) => {
    try {
      handle(http, name, version, caller)
    } catch (reason) {
      answerFailure(http, reason)
    }
  }
  return { path, methods: anyMethod, api, wrongMethodType: jsonType, handle: guarded }
}

function answerFailure(http: PortRequest, reason: unknown): void {
  if (reason instanceof TorchserveError) answerError(http, reason)
  else answerError(http, torchserveError(reason as ServerError), reason as ServerError)
}

const unknownPath = route(everyOtherPath, 'metadata', (http) => answerError(http, unknownResource()))

/** What may stand behind a model: nothing, a version, and words. */
const words = [
  '',
  ...pathWords.map(
    (_, index) =>
      `/${pathWords
        .slice(0, index + 1)
        .map((word) => `{${word}}`)
        .join('/')}`,
  ),
]

export function inferenceRoutes(parts: TorchserveParts): Route[] {
  const { engine, models } = parts
  const predict = (
    http: PortRequest,
    caller: Caller,
    name: string,
    version: string,
    extra: [string, string][],
  ): void => {
    const number = models.resolve(name, version)
    if (engine.findVersion(name, number).config.backend === 'torchserve') {
      new PredictionExchange(parts, http, caller, { extraHeaders: extra }).begin(name, number)
    } else parts.predict(http, name, number, caller)
  }
  const predictions =
    (explains: 'True' | 'False'): RouteHandler =>
    (http, _, __, caller) => {
      const [, , name = '', version = '', ...rest] = partsOf(http)
      // The port has compared the name as it was sent, which may be percent-encoded.
      requireRight(caller, 'inference', name)
      if (http.method === 'OPTIONS') {
        models.resolve(name, version)
        answerJson(http, modelDescription(name))
      } else {
        predict(http, caller, name, version, [
          ['explain', explains],
          ['url_path', rest.join('/')],
        ])
      }
    }
  const invoke: RouteHandler = (http, _, __, caller) => {
    const only = models.list()
    const name = queryOf(http).get('model_name') ?? (only.length === 1 ? (only[0]?.modelName ?? '') : '')
    if (name === '') throw badRequest('Parameter model_name is required.')
    requireRight(caller, 'inference', name)
    predict(http, caller, name, '', [])
  }
  const ping = (http: PortRequest): void => {
    const isHealthy = engine.isReady
    answerJson(http, { status: isHealthy ? 'Healthy' : 'Unhealthy' }, isHealthy ? 200 : 500)
  }
  return [
    route('/ping', 'health', ping),
    route('/', 'metadata', describe(inferenceDescription)),
    route('/api-description', 'metadata', (http) => answerJson(http, inferenceDescription)),
    ...words.map((rest) => large(route(`/predictions/{model}${rest}`, 'inference', predictions('False')))),
    ...words.slice(0, 2).map((rest) => large(route(`/explanations/{model}${rest}`, 'inference', predictions('True')))),
    large(route('/invocations', 'inference', invoke)),
    large(route('/models/{model}/invoke', 'inference', byPlace(2, 0))),
    large(route('/{model}/predict', 'inference', byPlace(1, 0))),
    large(route('/{model}/{a}/predict', 'inference', byPlace(1, 2))),
    unknownPath,
  ]

  /** The older paths of TorchServe: the handler is told neither of a path nor of explanations. */
  function byPlace(nameAt: number, versionAt: number): RouteHandler {
    return (http, _, __, caller) => {
      const path = partsOf(http)
      predict(http, caller, path[nameAt] ?? '', versionAt === 0 ? '' : (path[versionAt] ?? ''), [])
    }
  }
}

const describe =
  (description: unknown): RouteHandler =>
  (http) => {
    if (http.method !== 'OPTIONS') throw wrongMethod()
    answerJson(http, description)
  }

export function managementRoutes(parts: TorchserveParts, settings: TorchserveSettings): Route[] {
  const { models } = parts
  const requireModelApi = (): void => {
    if (!settings.allowsModelApi) throw wrongMethod()
  }
  const collection: RouteHandler = (http, _, __, caller) => {
    if (http.method === 'GET') answerJson(http, page(models, queryOf(http), visibleModels(caller, 'model-repository')))
    else if (http.method === 'POST') {
      requireModelApi()
      register(http, caller)
    } else throw wrongMethod()
  }
  const register = (http: PortRequest, caller: Caller): void => {
    const fields = requestFields(http)
    const request = registerRequest(fields)
    // The name may stand in the archive alone: who may not register every model must say the name.
    if (caller.rights !== null && request.name === '') requireRight(caller, 'model-repository', '')
    requireRight(caller, 'model-repository', request.name)
    const isSynchronous = fields('synchronous') !== 'false'
    const done = models.register(request, httpChangeOrigin(http, caller)).then(({ name, version, workers }) => {
      const text = `Model "${name}" Version: ${version} registered with ${workers} initial workers`
      return workers === 0 ? `${text}. Use scale workers API to add workers for the model.` : text
    })
    finish(http, done, isSynchronous || request.given.workers === 0)
  }
  const one: RouteHandler = (http, _, __, caller) => {
    const [, , name = '', version = ''] = partsOf(http)
    requireRight(caller, 'model-repository', name)
    if (http.method === 'GET') answerJson(http, models.describe(name, version))
    else if (http.method === 'PUT') scale(http, caller, name, version)
    else if (http.method === 'DELETE') {
      requireModelApi()
      const done = models.unregister(name, version, httpChangeOrigin(http, caller))
      finish(
        http,
        done.then(() => `Model "${name}" unregistered`),
        true,
      )
    } else if (http.method === 'OPTIONS') answerJson(http, modelDescription(name))
    else throw wrongMethod()
  }
  const scale = (http: PortRequest, caller: Caller, name: string, version: string): void => {
    models.requireOwned(name, version)
    const fields = requestFields(http)
    const min = numberOf(fields('min_worker'), 1)
    const max = numberOf(fields('max_worker'), min)
    const done = models.scale(name, version, min, max, httpChangeOrigin(http, caller)).then((workers) => {
      const which = version === '' ? '' : `, version: ${version}`
      return `Workers scaled to ${workers} for model: ${name}${which}`
    })
    finish(http, done, fields('synchronous') === 'true' || max < min)
  }
  return [
    route('/', 'metadata', describe(managementDescription)),
    route('/api-description', 'metadata', (http) => answerJson(http, managementDescription)),
    route('/models', 'model-repository', collection),
    route('/models/{model}', 'model-repository', one),
    route('/models/{model}/{a}', 'model-repository', one),
    route('/models/{model}/{a}/set-default', 'model-repository', setDefault(models)),
    route('/v1/models/{model}', 'health', readiness(parts)),
    unknownPath,
  ]
}

const setDefault =
  (models: TorchserveModels): RouteHandler =>
  (http, _, __, caller) => {
    if (http.method !== 'PUT') throw wrongMethod()
    const [, , name = '', version = ''] = partsOf(http)
    requireRight(caller, 'model-repository', name)
    const done = models.setDefault(name, version, httpChangeOrigin(http, caller))
    finish(
      http,
      done.then(() => `Default version successfully updated for model "${name}" to "${version}"`),
      true,
    )
  }

const readiness =
  ({ models, engine }: TorchserveParts): RouteHandler =>
  (http, _, __, caller) => {
    const name = partsOf(http)[3] ?? ''
    requireRight(caller, 'health', name)
    models.describe(name, '')
    answerJson(http, { name, ready: engine.isModelReady(name, '') })
  }

export function torchserveMetricsRoutes({ engine, models, counts }: TorchserveParts): Route[] {
  const metrics: RouteHandler = (http) => {
    if (http.method !== 'GET') throw wrongMethod()
    const names = new Set(queryOf(http).getAll('name[]'))
    const text = counts.text(engine, names, (model, version) => models.versionName(model, version))
    http.respond(new HttpResponse(200, metricsType, [Buffer.from(text)]))
  }
  return [route('/metrics', 'statistics', metrics), unknownPath]
}

/** Answers when the change is done; `waits` false: at once, as TorchServe without `synchronous`. */
function finish(http: PortRequest, done: Promise<string>, waits: boolean): void {
  if (!waits) answerStatus(http, 'Processing worker updates...', 202)
  done.then(
    (text) => {
      if (waits) answerStatus(http, text)
    },
    (reason: unknown) => {
      if (waits) answerFailure(http, reason)
    },
  )
}

/** The fields of a request: in its query, or in a body of JSON. */
function requestFields(http: PortRequest): (name: string) => string {
  const query = queryOf(http)
  const isJson = (headerOf(http.headers, 'content-type') ?? '').startsWith(jsonType) && http.body.length > 0
  const document = isJson ? parseJsonDocument(http.body) : null
  return (name) => {
    const value = document === null ? undefined : memberOf(document, name)
    return value === undefined || value === null ? (query.get(name) ?? '') : String(value as string | number | boolean)
  }
}

const numberOf = (text: string, byDefault: number): number => (/^\d{1,9}$/.test(text) ? Number(text) : byDefault)

function registerRequest(fields: (name: string) => string): RegisterRequest {
  const url = fields('url')
  if (url === '') throw badRequest('Parameter url is required.')
  const numbers = [
    ['batchSize', 'batch_size'],
    ['maxBatchDelayMs', 'max_batch_delay'],
    ['workers', 'initial_workers'],
    ['responseTimeoutSecs', 'response_timeout'],
  ] as const
  const given = numbers.flatMap(([key, name]) => (/^\d{1,9}$/.test(fields(name)) ? [[key, Number(fields(name))]] : []))
  const handler = fields('handler') === '' ? {} : { handler: fields('handler') }
  return { url, name: fields('model_name'), given: { ...Object.fromEntries(given), ...handler } }
}

function page(
  models: TorchserveModels,
  query: URLSearchParams,
  isVisible: ((name: string) => boolean) | null,
): unknown {
  const limit = numberOf(query.get('limit') ?? '', mostListed)
  const size = limit > mostListed || limit === 0 ? mostListed : limit
  const start = numberOf(query.get('next_page_token') ?? '', 0)
  const all = models.list().filter(({ modelName }) => isVisible === null || isVisible(modelName))
  const end = start + size
  return { ...(end < all.length ? { nextPageToken: String(end) } : {}), models: all.slice(start, end) }
}
