// TensorFlow Serving's REST API: predictions, and what it tells of models.

import { requireRight } from '../../access/require-right.ts'
import { percentDecoded } from '../../base/percent-decoded.ts'
import type { ServerError } from '../../base/server-error.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import { jsonResponse } from '../../ports/http/error-response.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import { anyMethod, everyOtherPath, get, large, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { telling } from '../../ports/http/telling.ts'
import type { TfMethod } from '../../protocol/tfserving/example-results.ts'
import { invalid } from '../../protocol/tfserving/predict-request.ts'
import { tfErrorBody } from '../../protocol/tfserving/predict-response.ts'
import { headerOf, HttpResponse, jsonType } from '../../transport/http1/http-message.ts'
import { restEndpoint, tfErrorResponse, type RestParts } from './rest-exchange.ts'

const methods: readonly TfMethod[] = ['predict', 'classify', 'regress']
const model = '/v1/models/{model}'
/** A model, a version of it, or the version that a label stands for. */
const places = [model, `${model}/versions/{version}`, `${model}/labels/{label}`]

const largestVersion = 2n ** 63n - 1n

/** The paths below `/v1/models/{model}`. */
export function tfservingRoutes(parts: RestParts, options: HttpOptions): Route[] {
  const { serving } = parts
  const run = restEndpoint(parts, options)
  const status = shown('health', (name, version) => serving.statusJson(name, version))
  const metadata = shown('metadata', (name, version) => serving.metadataJson(name, version))
  return places.flatMap((place) => [
    ...methods.map((method) => large(post(`${place}:${method}`, 'inference', named(parts, run(method))))),
    // A label is not looked at: all versions are told.
    get(place, 'health', named(parts, status, false)),
    get(`${place}/metadata`, 'metadata', named(parts, metadata)),
  ])
}

/** The routes of the port of its own: TensorFlow Serving lists no models, and has one answer to every other path and verb below `/v1/`. */
export const tfservingOwnRoutes = (routes: readonly Route[]): Route[] => [
  ...[...routes, get('/v1/models', 'metadata', (http) => http.respond(refusal('Missing model name in request.')))].map(
    (route) => ({ ...route, methods: anyMethod, ignoresCase: true, handle: strict(route) }),
  ),
  { ...get(everyOtherPath, 'metadata', refuseMalformed), methods: anyMethod },
]

/** `/V1/Models/m:predict` is taken as well, and `:PREDICT` is not. */
function strict({ path, methods: [verb], handle }: Route): RouteHandler {
  const method = /:\w+$|\/metadata$/.exec(path)?.[0] ?? ''
  return (http, name, version, caller) => {
    const isOwn = http.method === verb && http.target.includes(method) && !name.includes(':')
    if (isOwn) handle(http, name, version, caller)
    else refuseMalformed(http)
  }
}

function refuseMalformed(http: PortRequest): void {
  const { method, target, headers } = http
  if (!/^\/v1\//i.test(target)) http.respond(refusal('Not Found', 404))
  else if (method !== 'OPTIONS') http.respond(refusal(`Malformed request: ${method} ${target}`))
  else http.respond(new HttpResponse(/https?:\/\//.test(headerOf(headers, 'origin') ?? '') ? 200 : 400, jsonType, []))
}

const refusal = (text: string, status = 400): HttpResponse => new HttpResponse(status, jsonType, [tfErrorBody(text)])

const shown =
  (action: 'health' | 'metadata', show: (name: string, version: string) => Buffer): RouteHandler =>
  (http, name, version, caller) => {
    // The port has judged the name as it was sent, perhaps percent-encoded.
    requireRight(caller, action, name)
    http.respond(jsonResponse(show(name, version)))
  }

const answerError = (http: PortRequest, error: ServerError): void => http.respond(tfErrorResponse(error))

/** Hands on the name and the version that a path stands for, and tells errors in the form of the protocol. */
const named = ({ serving }: RestParts, handle: RouteHandler, hasLabels = true): RouteHandler =>
  telling(answerError, (http, sent, digits, caller) => {
    const name = decoded(sent)
    if (digits !== '' && (digits.length > 19 || BigInt(digits) > largestVersion)) {
      throw invalid(`Failed to convert version: ${digits} to numeric.`)
    }
    const version = digits === '' ? '' : String(BigInt(digits))
    const isLabelled = hasLabels && digits === ''
    const inPath = isLabelled ? /^[^?]*\/labels\/([^/:?]+)/i.exec(http.target)?.[1] : undefined
    const label = inPath === undefined ? null : decoded(inPath)
    handle(http, name, serving.versionOf({ name, version, label }), caller)
  })

/** What is no escape stays as it is. */
const decoded = (text: string): string => (text.includes('%') ? (percentDecoded(text) ?? text) : text)
