import { visibleModels } from '../../access/require-right.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { servedNames } from '../../exchange/served-names.ts'
import { errorResponse, jsonResponse, metricsResponse } from '../../ports/http/error-response.ts'
import type { HttpOptions } from '../../ports/http/http-options.ts'
import { acting, get, large, open, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { refuseIn, telling } from '../../ports/http/telling.ts'
import { jsonType, plainType } from '../../transport/http1/http-message.ts'
import { absentModel } from './absent-model.ts'
import { withoutCloudEvent } from './cloud-event.ts'
import { predictEndpoint, type PredictParts } from './predict-endpoint.ts'
import { PredictTimes } from './predict-times.ts'

/** The paths of KServe v1; none with `--kserve-v1=false`. The port has `/metrics` with `--kserve-v1-metrics`. */
export function kserve1Routes(parts: PredictParts, options: HttpOptions): Route[] {
  if (!options.hasKserveV1) return []
  const times = options.hasKserveMetrics ? new PredictTimes() : null
  return [
    // Whoever gets any answer knows as much, so nobody is asked for a key. A browser is sent to the console instead.
    open(get('/', 'health', (http) => http.respond(jsonResponse(alive)))),
    get('/v1/models', 'metadata', listModels(parts.engine)),
    get('/v1/models/{model}', 'health', modelReady(parts.engine)),
    large(
      post('/v1/models/{model}:predict', 'inference', asEvent(parts, options, predictEndpoint(parts, options, times))),
    ),
    large(post('/v1/models/{model}:explain', 'inference', explain(parts.engine))),
    ...(times === null ? [] : [acting('metrics', get('/metrics', 'statistics', showTimes(times), plainType))]),
  ]
}

const alive = Buffer.from('{"status":"alive"}')

/** What KServe's own server has below `/v2` and Triton has not. */
export const kserve2Routes = (engine: Engine, { hasKserveV1 }: HttpOptions): Route[] =>
  hasKserveV1 ? [get('/v2/models', 'metadata', listModels(engine))] : []

const showTimes =
  (times: PredictTimes): RouteHandler =>
  (http, _name, _version, caller) => {
    const text = times.text(visibleModels(caller, 'metrics'))
    http.respond(metricsResponse(text))
  }

/** The request may come as a CloudEvent. */
const asEvent = ({ engine, clock }: PredictParts, { cloudEvents }: HttpOptions, handle: RouteHandler): RouteHandler =>
  telling(refuseIn(engine), (http, name, version, caller) =>
    handle(withoutCloudEvent(http, { modelName: name, clock, options: cloudEvents }), name, version, caller),
  )

/** KServe runs explainers in containers of their own, in front of the model. */
const explain = (engine: Engine): RouteHandler =>
  telling(refuseIn(engine), (_, name) => {
    if (!engine.isModelReady(name, '')) throw absentModel(engine, name)
    const text = `model '${name}' has no explainer: this server runs models, and an explainer stands in front of it`
    throw ServerError.withoutStack('UNSUPPORTED', `${text}. POST /v1/models/${name}:predict runs the model.`)
  })

const listModels =
  (engine: Engine): RouteHandler =>
  (http, _name, _version, caller) => {
    const models = servedNames(engine, caller, 'metadata').sort()
    http.respond(jsonResponse(Buffer.from(JSON.stringify({ models }))))
  }

/** 503 while the model is known and does not serve, as KServe's own server answers. */
const modelReady =
  (engine: Engine): RouteHandler =>
  (http, name) => {
    if (engine.isModelReady(name, '')) http.respond(jsonResponse(Buffer.from(JSON.stringify({ name, ready: true }))))
    else http.respond(errorResponse(engine.wording.tell(absentModel(engine, name)), jsonType))
  }
