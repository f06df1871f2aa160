// TorchServe's three HTTP ports: predictions, management of models, metrics.

import { requireRight, visibleModels } from '../../access/require-right.ts'
import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
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
import {
  TorchserveManagement,
  type Actor,
  type Change,
  type Fields,
  type TorchserveSettings,
} from './torchserve-management.ts'
import type { TorchserveModels } from './torchserve-models.ts'

export type TorchserveParts = PredictionParts & {
  readonly models: TorchserveModels
  /** Answers for models that are no archives of TorchServe, in the JSON of KServe v1. */
  readonly predict: RouteHandler
}

const anyMethod = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS']
const metricsType = 'text/plain; version=0.0.4; charset=utf-8'
/** More words behind the version of a path than this are an unknown path. */
const pathWords = ['a', 'b', 'c', 'd', 'e']

/** The path in parts, decoded; the first is ''. */
function partsOf(http: PortRequest): string[] {
  const path = (http.target.split('?', 1)[0] ?? '').replace(/^https?:\/\/[^/]*/i, '').replace(/\/$/, '')
  try {
    return path.split('/').map(decodeURIComponent)
  } catch {
    throw badRequest('the path is not percent-encoded UTF-8')
  }
}

const queryOf = ({ target }: PortRequest): URLSearchParams =>
  new URLSearchParams(target.includes('?') ? target.slice(target.indexOf('?') + 1) : '')

/** Every route takes every method, which TorchServe answers in its own form where it is wrong, and a slash behind it. */
function route(path: string, api: ApiName, handle: RouteHandler): Route {
  const guarded: RouteHandler = (http, name, version, caller) => {
    try {
      handle(http, name, version, caller)
    } catch (reason) {
      answerFailure(http, reason)
    }
  }
  const open = path === '/' || path === everyOtherPath ? path : `${path}[/]`
  return { path: open, methods: anyMethod, api, wrongMethodType: jsonType, handle: guarded }
}

function answerFailure(http: PortRequest, reason: unknown): void {
  if (reason instanceof TorchserveError) {
    answerError(http, reason)
    return
  }
  const error = ServerError.from(reason)
  answerError(http, torchserveError(error), error)
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
      const name = path[nameAt] ?? ''
      requireRight(caller, 'inference', name)
      predict(http, caller, name, versionAt === 0 ? '' : (path[versionAt] ?? ''), [])
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
  const management = new TorchserveManagement(parts.models, settings)
  const collection: RouteHandler = (http, _, __, caller) => {
    if (http.method === 'GET')
      answerJson(
        http,
        management.list((name) => queryOf(http).get(name) ?? '', caller),
      )
    else if (http.method === 'POST') finish(http, management.register(requestFields(http), actorOf(http, caller)))
    else throw wrongMethod()
  }
  const one: RouteHandler = (http, _, __, caller) => {
    const [, , name = '', version = ''] = partsOf(http)
    const actor = actorOf(http, caller)
    if (http.method === 'GET') answerJson(http, management.describe(name, version, caller))
    else if (http.method === 'PUT') finish(http, management.scale(name, version, requestFields(http), actor))
    else if (http.method === 'DELETE') finish(http, management.unregister(name, version, actor))
    else if (http.method !== 'OPTIONS') throw wrongMethod()
    else {
      requireRight(caller, 'model-repository', name)
      answerJson(http, modelDescription(name))
    }
  }
  const setDefault: RouteHandler = (http, _, __, caller) => {
    const [, , name = '', version = ''] = partsOf(http)
    // As in TorchServe, whoever asks here is told about the version.
    if (http.method === 'GET') answerJson(http, management.describe(name, version, caller))
    else if (http.method !== 'PUT') throw wrongMethod()
    else finish(http, management.setDefault(name, version, actorOf(http, caller)))
  }
  return [
    route('/', 'metadata', describe(managementDescription)),
    route('/api-description', 'metadata', (http) => answerJson(http, managementDescription)),
    route('/models', 'model-repository', collection),
    route('/models/{model}', 'model-repository', one),
    route('/models/{model}/{a}', 'model-repository', one),
    route('/models/{model}/{a}/set-default', 'model-repository', setDefault),
    route('/v1/models/{model}', 'health', readiness(parts)),
    unknownPath,
  ]
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
  const metrics: RouteHandler = (http, _, __, caller) => {
    if (http.method !== 'GET') throw wrongMethod()
    const names = new Set(queryOf(http).getAll('name[]'))
    const isVisible = visibleModels(caller, 'statistics')
    const loadTimes = isVisible === null ? models.loadTimes() : []
    const versionOf = (model: string, version: string): string => models.versionName(model, version)
    const text = counts.text({ engine, names, versionOf, loadTimes, isVisible })
    http.respond(new HttpResponse(200, metricsType, [Buffer.from(text)]))
  }
  return [route('/metrics', 'statistics', metrics), unknownPath]
}

function finish(http: PortRequest, { done, waits }: Change): void {
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

const actorOf = (http: PortRequest, caller: Caller): Actor => ({ caller, origin: httpChangeOrigin(http, caller) })

/** The fields of a request: in its query, or in a body of JSON. */
function requestFields(http: PortRequest): Fields {
  const query = queryOf(http)
  const isJson = (headerOf(http.headers, 'content-type') ?? '').startsWith(jsonType) && http.body.length > 0
  const document = isJson ? parseJsonDocument(http.body) : null
  return (name) => {
    const value = document === null ? undefined : memberOf(document, name)
    return value === undefined || value === null ? (query.get(name) ?? '') : String(value as string | number | boolean)
  }
}
