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
    get(place, 'health', named(parts, status)),
    get(`${place}/metadata`, 'metadata', named(parts, metadata)),
  ])
}

/** The routes of the port of its own: TensorFlow Serving lists no models, and has one answer to every other path and verb. */
export const tfservingOwnRoutes = (routes: readonly Route[]): Route[] => [
  ...routes.map((route) => ({ ...route, methods: anyMethod, ignoresCase: true, handle: strict(route) })),
  get('/v1/models', 'metadata', (http) => http.respond(refusal('Missing model name in request.'))),
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
  const isPreflight = http.method === 'OPTIONS' && /^https?:\/\//.test(headerOf(http.headers, 'origin') ?? '')
  if (isPreflight) http.respond(new HttpResponse(200, jsonType, []))
  else http.respond(refusal(`Malformed request: ${http.method} ${http.target.slice(0, 200)}`))
}

const refusal = (text: string): HttpResponse => new HttpResponse(400, jsonType, [tfErrorBody(text)])

const shown =
  (action: 'health' | 'metadata', show: (name: string, version: string) => Buffer): RouteHandler =>
  (http, name, version, caller) => {
    // The port has judged the name as it was sent, perhaps percent-encoded.
    requireRight(caller, action, name)
    http.respond(jsonResponse(show(name, version)))
  }

const answerError = (http: PortRequest, error: ServerError): void => http.respond(tfErrorResponse(error))

/** Hands on the name and the version that a path stands for, and tells errors in the form of the protocol. */
const named = ({ serving }: RestParts, handle: RouteHandler): RouteHandler =>
  telling(answerError, (http, sent, digits, caller) => {
    const name = decoded(sent, 'model name')
    if (digits !== '' && (digits.length > 19 || BigInt(digits) > largestVersion)) {
      throw invalid(`Failed to convert version: ${digits.slice(0, 40)} to numeric.`)
    }
    const version = digits === '' ? '' : String(BigInt(digits))
    const inPath = digits === '' ? /^[^?]*\/labels\/([^/:?]+)/i.exec(http.target)?.[1] : undefined
    const label = inPath === undefined ? null : decoded(inPath, 'model version label')
    handle(http, name, serving.versionOf({ name, version, label }), caller)
  })

function decoded(text: string, what: string): string {
  if (!text.includes('%')) return text
  const plain = percentDecoded(text)
  if (plain === null) throw invalid(`Failed to decode ${what}:${text.slice(0, 200)}`)
  return plain
}
