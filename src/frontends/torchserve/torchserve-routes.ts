// TorchServe's three HTTP ports: predictions, management of models, metrics.

import type { ApiName } from '../../access/api-name.ts'
import type { Caller } from '../../access/caller.ts'
import { requireRight, visibleModels } from '../../access/require-right.ts'
import { percentDecoded } from '../../base/percent-decoded.ts'
import { inSlices } from '../../base/run-in-slices.ts'
import { metricsResponse } from '../../ports/http/error-response.ts'
import { inOwnWords } from '../../model/worded-error.ts'
import { httpChangeOrigin } from '../../ports/http/http-change-origin.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { anyMethod, everyOtherPath, large, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { telling } from '../../ports/http/telling.ts'
import { formFields } from '../../protocol/form-fields.ts'
import { queryOf } from '../../protocol/query-of.ts'
import { memberOf, parseJsonDocument } from '../../protocol/json-document.ts'
import { headerOf, jsonType } from '../../transport/http1/http-message.ts'
import {
  inferenceDescription,
  managementDescription,
  modelDescription,
  modelManagementDescription,
} from './torchserve-description.ts'
import { PredictionExchange, type HandlerExtras, type PredictionParts } from './prediction-endpoint.ts'
import { answerError, answerJson, badRequest, unknownResource, wrongMethod } from './torchserve-answers.ts'
import {
  managementOperations,
  mostFieldChars,
  type Fields,
  type ManagementOptions,
  type Operation,
} from './torchserve-management.ts'
import type { TorchserveModels } from './torchserve-models.ts'

export type TorchserveParts = PredictionParts & {
  readonly models: TorchserveModels
  /** Answers for models that are no archives of TorchServe, in the JSON of KServe v1. */
  readonly predict: RouteHandler
}

/** The path in parts, decoded; the first is ''. The port has compared names as they were sent, perhaps percent-encoded. */
function partsOf(http: PortRequest): string[] {
  const path = (http.target.split('?', 1)[0] ?? '').replace(/^https?:\/\/[^/]*/i, '').replace(/\/$/, '')
  return path.split('/').map((part) => {
    const decoded = percentDecoded(part)
    if (decoded === null) throw badRequest('the path is not percent-encoded UTF-8')
    return decoded
  })
}

type Handle = (http: PortRequest, caller: Caller, path: readonly string[]) => void | Promise<void>

/** Every route takes every method, which TorchServe answers in its own form where it is wrong, and a slash behind it. */
function route(path: string, api: ApiName, handle: Handle): Route {
  const told = telling(answerError, (http, _, __, caller) =>
    handle(http, caller, path === everyOtherPath ? [] : partsOf(http)),
  )
  const open = path === '/' || path === everyOtherPath ? path : `${path}[/]`
  return { path: open, methods: anyMethod, api, wrongMethodType: jsonType, handle: told }
}

const unknownPath = route(everyOtherPath, 'metadata', (http) => void answerError(http, unknownResource()))

const descriptionRoutes = (description: unknown): Route[] => [
  route('/', 'metadata', (http) => {
    if (http.method !== 'OPTIONS') throw wrongMethod()
    answerJson(http, description)
  }),
  route('/api-description', 'metadata', (http) => answerJson(http, description)),
]

/** What may stand behind a model: nothing, a version, and up to four words. */
const words = ['', '/{a}', '/{a}/{b}', '/{a}/{b}/{c}', '/{a}/{b}/{c}/{d}', '/{a}/{b}/{c}/{d}/{e}']

export function inferenceRoutes(parts: TorchserveParts): Route[] {
  const { engine, models } = parts
  const predict = (http: PortRequest, caller: Caller, name = '', version = '', extras: HandlerExtras = {}): void => {
    requireRight(caller, 'inference', name)
    const number = models.resolve(name, version)
    const isOwn = engine.findVersion(name, number).config.backend === 'torchserve'
    if (isOwn) new PredictionExchange(parts, http, caller, extras).begin(name, number)
    else parts.predict(http, name, number, caller)
  }
  const predictions =
    (explain: 'True' | 'False'): Handle =>
    (http, caller, [, , name = '', version, ...rest]) => {
      if (http.method !== 'OPTIONS') {
        const headers = [['explain', explain] as const, ['url_path', rest.join('/')] as const]
        predict(http, caller, name, version, { headers })
        return
      }
      requireRight(caller, 'inference', name)
      models.resolve(name, version ?? '')
      answerJson(http, modelDescription(name))
    }
  /** The older paths of TorchServe: the handler is told neither of a path nor of explanations, and gets the query as fields. */
  const predictOlder = (http: PortRequest, caller: Caller, name: string, version?: string): void =>
    predict(http, caller, name, version, { query: [...queryOf(http.target)] })
  const invoke: Handle = async (http, caller) => {
    const name =
      queryOf(http.target).get('model_name') ||
      models.onlyName() ||
      (await inSlices(parts.clock, formValue(http, 'model_name')))
    if (name === '') throw badRequest('Parameter model_name is required.')
    predictOlder(http, caller, name)
  }
  /** `/v1/models/{model}:predict` and `/v2/models/{model}/infer`: the service envelope of the handler reads KServe's bodies. */
  const kserve =
    (explain: 'True' | 'False'): Handle =>
    (http, caller, [, , , name = '']) =>
      predict(http, caller, name.replace(/:\w+$/, ''), '', { headers: [['explain', explain]] })
  const inference = (path: string, handle: Handle): Route => large(route(path, 'inference', handle))
  return [
    route('/ping', 'health', (http) => {
      const isHealthy = engine.isReady
      answerJson(http, { status: isHealthy ? 'Healthy' : 'Unhealthy' }, isHealthy ? 200 : 500)
    }),
    ...descriptionRoutes(inferenceDescription),
    ...words.map((rest) => inference(`/predictions/{model}${rest}`, predictions('False'))),
    ...words.map((rest) => inference(`/explanations/{model}${rest}`, predictions('True'))),
    ...[':predict', '/infer'].map((end, i) => inference(`/v${i + 1}/models/{model}${end}`, kserve('False'))),
    ...[':explain', '/explain'].map((end, i) => inference(`/v${i + 1}/models/{model}${end}`, kserve('True'))),
    inference('/invocations', invoke),
    inference('/models/{model}/invoke', (http, caller, [, , name = '']) => predictOlder(http, caller, name)),
    inference('/{model}/predict', (http, caller, [, name = '']) => predictOlder(http, caller, name)),
    inference('/{model}/{a}/predict', (http, caller, [, name = '', version]) =>
      predictOlder(http, caller, name, version),
    ),
    unknownPath,
  ]
}

/** The last value of that field of a form; '' where there is none. */
function* formValue(http: PortRequest, wanted: string): Generator<void, string> {
  const fields = (yield* formFields(http.body, headerOf(http.headers, 'content-type') ?? '')) ?? []
  const value = fields.findLast(({ name }) => name === wanted)?.value ?? null
  if (value === null) return ''
  if (value.length > mostFieldChars) throw badRequest(`Parameter ${wanted} has more than ${mostFieldChars} characters.`)
  return value.toString()
}

export function managementRoutes({ models, engine }: TorchserveParts, management: ManagementOptions): Route[] {
  const does = managementOperations(models, management)
  const one = {
    GET: does.DescribeModel,
    PUT: does.ScaleWorker,
    DELETE: does.UnregisterModel,
    OPTIONS: described(models),
  }
  const paths: Readonly<Record<string, Readonly<Record<string, Operation>>>> = {
    '/models': { GET: does.ListModels, POST: does.RegisterModel },
    '/models/{model}': one,
    '/models/{model}/{a}': one,
    // As in TorchServe, whoever asks here is told about the version.
    '/models/{model}/{a}/set-default': { GET: does.DescribeModel, PUT: does.SetDefault },
  }
  return [
    ...descriptionRoutes(managementDescription),
    ...Object.entries(paths).map(([path, methods]) =>
      route(path, 'model-repository', async (http, caller, [, , name = '', version = '']) => {
        const operation = methods[http.method]
        if (operation === undefined) throw wrongMethod()
        const origin = httpChangeOrigin(http, caller)
        const told = await operation({
          name,
          version,
          fields: requestFields(http),
          headers: http.headers,
          caller,
          origin,
        })
        if ('json' in told) answerJson(http, told.json)
        else answerJson(http, { status: told.text }, told.isUnderWay ? 202 : 200)
      }),
    ),
    route('/v1/models/{model}', 'health', (http, caller, [, , , name = '']) => {
      requireRight(caller, 'health', name)
      models.describe(name, '')
      answerJson(http, { name, ready: engine.isModelReady(name, '') })
    }),
    unknownPath,
  ]
}

const described =
  (models: TorchserveModels): Operation =>
  ({ name, version, caller }) => {
    requireRight(caller, 'model-repository', name)
    // Only a model that is there is described.
    models.describe(name, version)
    return { json: modelManagementDescription(name) }
  }

/** The fields of a request: in its query, or in a body of JSON. */
function requestFields(http: PortRequest): Fields {
  const query = queryOf(http.target)
  const isJson = http.method !== 'GET' && (headerOf(http.headers, 'content-type') ?? '').startsWith(jsonType)
  let document: ReturnType<typeof parseJsonDocument> | null = null
  return (name) => {
    if (isJson && http.body.length > 0) document ??= inOwnWords(() => parseJsonDocument(http.body))
    const value = document === null ? null : (memberOf(document, name) ?? null)
    return value === null ? (query.get(name) ?? '') : String(value as string | number | boolean)
  }
}

export function torchserveMetricsRoutes({ counts }: Pick<TorchserveParts, 'counts'>): Route[] {
  const metrics: Handle = (http, caller) => {
    if (http.method !== 'GET') throw wrongMethod()
    const text = counts.text(queryOf(http.target).getAll('name[]'), visibleModels(caller, 'statistics'))
    http.respond(metricsResponse(text))
  }
  return [route('/metrics', 'statistics', metrics), unknownPath]
}
