import { requireRightForAll, visibleModels } from '../../access/require-right.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Log } from '../../base/log.ts'
import type { Engine } from '../../engine/engine.ts'
import { worded } from '../../model/worded-error.ts'
import { httpChangeOrigin } from '../../ports/http/http-change-origin.ts'
import {
  encodeIndex,
  readIndexRequest,
  readLoadRequest,
  readOverride,
  readUnloadRequest,
  type LoadParameters,
} from '../../protocol/repository-request.ts'
import { encodeDetailedIndex } from '../../protocol/registry-json.ts'
import { readDetailsQuery } from '../../protocol/registry-query.ts'
import { errorResponse, jsonResponse } from '../../ports/http/error-response.ts'
import { HttpResponse, jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'
import type { RouteHandler } from '../../ports/http/route.ts'
import type { JsonOffload } from '../../ports/http/json-offload.ts'
import { largeRequestJsonBytes } from '../../ports/http/large-json.ts'

/** Nothing to tell, and of the type that Triton gives it. */
const done = (headers: readonly string[] = []): HttpResponse => new HttpResponse(200, jsonType, [], { headers })

/** The model repository extension: the index of models, load and unload. */
export class RepositoryEndpoints {
  readonly #engine: Engine
  readonly #log: Log
  readonly #offload: JsonOffload

  constructor(dependencies: { readonly engine: Engine; readonly log: Log; readonly offload: JsonOffload }) {
    this.#engine = dependencies.engine
    this.#offload = dependencies.offload
    this.#log = dependencies.log.from('repository-endpoints.ts')
  }

  readonly index: RouteHandler = (request, _name, _version, caller) =>
    answer(this.#engine, request, async () => {
      const isVisible = visibleModels(caller, 'model-repository')
      const seen = <T extends { readonly name: string }>(all: readonly T[]): readonly T[] =>
        isVisible === null ? all : all.filter(({ name }) => isVisible(name))
      const isReadyOnly = readIndexRequest(request.body)
      if (readDetailsQuery(request.target)) {
        return jsonResponse(encodeDetailedIndex(seen(await this.#engine.registry.detailedIndex(isReadyOnly))))
      }
      return jsonResponse(encodeIndex(seen(await this.#engine.repositoryIndex(isReadyOnly))))
    })

  readonly load: RouteHandler = (request, name, _, caller) =>
    answer(this.#engine, request, async () => {
      // As in Triton a body that cannot be read is told before the mode that forbids loads.
      const parameters = await this.#readLoad(request.body)
      this.#engine.requireExplicitControl()
      const origin = httpChangeOrigin(request, caller)
      const rollout = await this.#engine.load(name, readOverride(name, parameters, this.#log), origin)
      return done(rollout === '' ? [] : ['galatea-rollout', rollout])
    })

  /** The body says whether dependents are unloaded too. Large bodies are ignored; Triton does not validate the body. */
  readonly unload: RouteHandler = (request, name, _, caller) =>
    answer(this.#engine, request, async () => {
      this.#engine.requireExplicitControl()
      const { body } = request
      const unloadDependents = body.length <= largeRequestJsonBytes && readUnloadRequest(body)
      if (unloadDependents) requireRightForAll(caller, 'model-repository')
      await this.#engine.unload(name, unloadDependents, httpChangeOrigin(request, caller))
      return done()
    })

  readonly refuseNamedRepository = (request: HttpRequest): void =>
    answer(this.#engine, request, () => {
      throw worded('unsupported', { text: "'repository_name' specification is not supported" })
    })

  /** Files come as base64 inside JSON, perhaps many megabytes of it. */
  async #readLoad(body: Buffer): Promise<LoadParameters> {
    if (body.length <= largeRequestJsonBytes) return readLoadRequest(body)
    return new Promise((resolve, reject) => {
      this.#offload.readLoad(body, (error, parameters) => {
        if (parameters === null) reject(ServerError.from(error))
        else resolve(parameters)
      })
    })
  }
}

function answer(engine: Engine, request: HttpRequest, make: () => Promise<HttpResponse>): void {
  // `make` may throw before its first await; Promise.try turns that into a rejection.
  Promise.try(make).then(
    (response) => request.respond(response),
    (reason: unknown) => request.respond(errorResponse(engine.wording.tell(reason), jsonType)),
  )
}
