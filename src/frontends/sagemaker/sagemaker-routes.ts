// Amazon SageMaker's contract for a container: /ping, /invocations, and /models for an endpoint of many models. Inference
// itself is that of v2: this front end translates what SageMaker says in its own way.

import type { Caller } from '../../access/caller.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Engine } from '../../engine/engine.ts'
import { servedNames } from '../../exchange/served-names.ts'
import { emptyResponse, messageResponse } from '../../ports/http/error-response.ts'
import { ownType } from '../../ports/http/json-header-size-request.ts'
import type { PortRequest } from '../../ports/http/port-request.ts'
import {
  anyMethod,
  everyOtherPath,
  forAll,
  get,
  large,
  post,
  type Route,
  type RouteHandler,
} from '../../ports/http/route.ts'
import { refuseIn, telling } from '../../ports/http/telling.ts'
import { jsonType, plainType, type HttpResponse } from '../../transport/http1/http-message.ts'
import { SageMakerRequest } from './sagemaker-request.ts'
import { SagemakerModels, targetModel, unknownCall, type SagemakerModelParts } from './sagemaker-models.ts'
import { isOutOfMemory, outOfMemoryStatus } from './out-of-memory.ts'

export type SagemakerSettings = {
  readonly pingMode: 'ready' | 'live'
  readonly inferenceType: 'infer' | 'generate' | 'generate_stream'
  /** '' for the only model there is. */
  readonly defaultModel: string
  readonly modelRoot: string
}

export type SagemakerParts = SagemakerModelParts & {
  /** The endpoints of v2 that /invocations may stand for. */
  readonly inference: Readonly<Record<SagemakerSettings['inferenceType'], RouteHandler>>
}

export function sagemakerRoutes(parts: SagemakerParts, settings: SagemakerSettings): Route[] {
  const { engine } = parts
  const models = new SagemakerModels(parts, settings.modelRoot)
  const ping = (http: PortRequest): void => {
    const isHealthy = settings.pingMode === 'live' ? engine.isLive : engine.isReady
    http.respond(emptyResponse(isHealthy ? 200 : 400))
  }
  const type = ownType(engine.wording)
  const invoke = telling(refuseIn(engine, type), (http, _, version, caller) => {
    const request = new SageMakerRequest(http, null)
    parts.inference[settings.inferenceType](
      request,
      defaultModel(engine, settings.defaultModel, caller),
      version,
      caller,
    )
  })
  const invokeOne = telling(refuseIn(engine, type), (http, key, version, caller) => {
    if (!models.has(key)) http.respond(notLoaded(engine, key))
    else {
      const statusOf = (response: HttpResponse): number => invokeStatus(response, engine.wording.isTriton)
      const name = targetModel(http.headers) ?? models.nameOf(key)
      parts.inference.infer(new SageMakerRequest(http, statusOf), name, version, caller)
    }
  })
  return [
    get('/ping', 'health', ping, plainType),
    large(post('/invocations', 'inference', invoke, plainType)),
    // SageMaker's name of a model is a key of its own: rights that name models are compared when the model is known.
    anyway(forAll(get('/models[/]', 'model-repository', models.listOrLoad))),
    anyway(forAll(get('/models/{key}', 'model-repository', models.showOrUnload))),
    large(post('/models/{key}/invoke', 'inference', invokeOne)),
    anyway(get(everyOtherPath, 'metadata', unknownCall(engine.wording))),
  ]
}

const anyway = (route: Route): Route => ({ ...route, methods: anyMethod })

/** SageMaker's multi-model endpoints know 200, 404, 409 and 507. An answer that a retry may better keeps its 503. */
function invokeStatus(response: HttpResponse, isTriton: boolean): number {
  const { status, parts } = response
  if (status < 400) return status
  const text = Buffer.concat(parts.slice(0, 1)).toString('utf8', 0, 4096)
  if (isOutOfMemory(text)) return outOfMemoryStatus
  return status === 503 && !isTriton ? status : 400
}

const notLoaded = (engine: Engine, key: string): HttpResponse =>
  engine.wording.isTriton
    ? emptyResponse(404)
    : messageResponse(404, `model '${key}' is not loaded: POST /models loads it`, jsonType)

/** Throws NOT_FOUND unless a model was named or there is only one: Triton asks for a model of this name then. */
function defaultModel(engine: Engine, named: string, caller: Caller): string {
  if (named !== '') return named
  const names = servedNames(engine, caller, 'inference')
  if (names.length === 1) return names[0] as string
  const text = "Request for unknown model: 'unspecified_SAGEMAKER_TRITON_DEFAULT_MODEL_NAME' is not found"
  const advice = `: the server has ${names.length} models, and the environment variable names none of them`
  throw ServerError.withoutStack('NOT_FOUND', engine.wording.isTriton ? text : `${text}${advice}`)
}
